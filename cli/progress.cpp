#include "cli/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

namespace rapt::cli {

Progress::Progress(std::int64_t total)
    : total_(std::max<std::int64_t>(total, 1)), terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() { hide(); }

void Progress::show(std::int64_t done, std::string_view what) {
  if (!terminal_) return;
  constexpr std::int64_t width = 24;
  const auto filled =
      static_cast<std::size_t>(std::clamp<std::int64_t>(done, 0, total_) * width / total_);
  const std::string bar = std::string(filled, '#') + std::string(width - filled, '.');
  // Carriage return, erase the line, draw without a newline: the cursor stays on the bar.
  const std::string line = fmt::format("\r\x1b[K[{}] {}/{} {:.60}", bar, done, total_, what);
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
  visible_ = true;
}

void Progress::hide() {
  if (!visible_) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
  visible_ = false;
}

}  // namespace rapt::cli
