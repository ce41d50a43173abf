// A line of a kernel, for reports: the caller's, as a default argument.
#pragma once

#include <cstring>
#include <string>
#include <string_view>

#include "src/core/text.hpp"

namespace rapt::emulator {

// As std::source_location, which not every compiler of today has.
struct Here {
  const char* file = "";
  int line = 0;

  static constexpr Here current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
  friend bool operator==(Here a, Here b) {
    return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
  }
  // "flash.hpp:12"
  std::string to_string() const {
    const std::string_view path = file;
    return text(path.substr(path.rfind('/') + 1), ":", line);
  }
};

}  // namespace rapt::emulator
