#include "cli/arrays/input_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "rapt/rapt.hpp"

namespace rapt::cli {
namespace {

bool is_standard_input(std::string_view path) { return path == "-"; }

[[noreturn]] void fault(const std::string& path, int error) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("cannot read {}: {}", name_of_input(path), std::strerror(error)));
}

}  // namespace

std::string_view name_of_input(std::string_view path) {
  return is_standard_input(path) ? "standard input" : path;
}

std::vector<std::byte> read_file(const std::string& path) {
  using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;
  const File file = is_standard_input(path) ? File(stdin, [](std::FILE*) { return 0; })
                                            : File(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) fault(path, errno);
  std::error_code unknown;  // of a pipe: grow as it comes
  const auto expected = std::filesystem::file_size(path, unknown);
  constexpr std::size_t chunk = std::size_t{1} << 20;
  std::vector<std::byte> bytes;
  if (!unknown) bytes.reserve(expected + chunk);
  for (std::size_t used = 0;;) {
    bytes.resize(used + chunk);
    const std::size_t count = std::fread(bytes.data() + used, 1, chunk, file.get());
    used += count;
    if (count == chunk) continue;
    if (std::ferror(file.get())) fault(path, errno);
    bytes.resize(used);
    return bytes;
  }
}

}  // namespace rapt::cli
