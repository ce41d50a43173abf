// Reading a file whole.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace rapt::cli {

// A pipe will do as well; "-" is standard input. Throws rapt::Error.
std::vector<std::byte> read_file(const std::string& path);

}  // namespace rapt::cli
