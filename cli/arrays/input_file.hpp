// Reading a file whole.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rapt::cli {

// As messages call it: "-" is standard input.
std::string_view name_of_input(std::string_view path);

// A pipe will do as well. Throws rapt::Error.
std::vector<std::byte> read_file(const std::string& path);

}  // namespace rapt::cli
