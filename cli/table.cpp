#include "cli/table.hpp"

#include <algorithm>

namespace rapt::cli {
namespace {

// Terminal cells: one for each code point, which holds for what rapt prints.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }));
}

std::string padded(const std::string& text, std::size_t wanted, Align align) {
  const std::string spaces(wanted - std::min(wanted, width(text)), ' ');
  return align == Align::left ? text + spaces : spaces + text;
}

}  // namespace

void Table::column(std::string heading, Align align) {
  columns_.push_back({std::move(heading), align});
}

void Table::row(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::to_string() const {
  std::vector<std::vector<std::string>> lines = {{}};
  for (const Column& column : columns_) lines.front().push_back(column.heading);
  lines.insert(lines.end(), rows_.begin(), rows_.end());
  std::vector<std::size_t> widths(columns_.size(), 0);
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], width(line[i]));
  }
  std::string result;
  for (const auto& line : lines) {
    std::string whole;
    for (std::size_t i = 0; i < line.size(); ++i) {
      whole += (i == 0 ? "" : "  ") + padded(line[i], widths[i], columns_[i].align);
    }
    whole.erase(whole.find_last_not_of(' ') + 1);
    result += whole + "\n";
  }
  return result;
}

}  // namespace rapt::cli
