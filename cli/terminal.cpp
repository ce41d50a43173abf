#include "cli/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

namespace rapt::cli {
namespace {

constexpr std::size_t usual_width = 80;  // of a terminal that does not say

bool begins_code_point(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

}  // namespace

std::optional<std::size_t> terminal_width(std::FILE* stream) {
  const int descriptor = fileno(stream);
  if (isatty(descriptor) != 1) return std::nullopt;
  winsize size = {};
  if (ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return usual_width;
  return size.ws_col;
}

std::size_t cells(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, begins_code_point));
}

std::string cut(std::string_view text, std::size_t width) {
  if (cells(text) <= width) return std::string(text);
  std::size_t end = 0;
  for (std::size_t kept = 0; end < text.size(); ++end) {
    if (begins_code_point(text[end]) && ++kept > width - std::min<std::size_t>(width, 1)) break;
  }
  return std::string(text.substr(0, end)) + (width > 0 ? "…" : "");
}

std::string wrapped(std::string_view text, std::optional<std::size_t> width, std::size_t indent) {
  if (!width) return std::string(text);
  std::string result;
  std::size_t column = 0;
  while (!text.empty()) {
    const std::size_t start = std::min(text.find_first_not_of(' '), text.size());
    const std::size_t end = std::min(text.find(' ', start), text.size());
    const std::string_view word = text.substr(0, end);  // with the spaces before it
    if (column > indent && column + cells(word) > *width) {
      result += '\n' + std::string(indent, ' ');
      result += word.substr(start);
      column = indent + cells(word.substr(start));
    } else {
      result += word;
      column += cells(word);
    }
    text.remove_prefix(end);
  }
  return result;
}

}  // namespace rapt::cli
