#include "cli/table.hpp"

#include <algorithm>
#include <numeric>

#include "cli/terminal.hpp"

namespace rapt::cli {
namespace {

constexpr std::size_t narrowest_last_column = 24;

}  // namespace

std::string padded(std::string_view text, std::size_t width, Align align) {
  const std::string spaces(width - std::min(width, cells(text)), ' ');
  return align == Align::left ? std::string(text) + spaces : spaces + std::string(text);
}

void Table::column(std::string heading, Align align) {
  columns_.push_back({std::move(heading), align});
}

void Table::row(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::to_string(std::optional<std::size_t> width) const {
  std::vector<std::vector<std::string>> lines = {{}};
  for (const Column& column : columns_) lines.front().push_back(column.heading);
  lines.insert(lines.end(), rows_.begin(), rows_.end());
  std::vector<std::size_t> widths(columns_.size(), 0);
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], cells(line[i]));
  }
  // Where the last column's text begins, which is where it goes on in the next line.
  std::size_t last = std::accumulate(widths.begin(), widths.end() - 1, 2 * (widths.size() - 1));
  if (width && *width < last + narrowest_last_column) last = 4;
  std::string result;
  for (const auto& line : lines) {
    std::string whole;
    for (std::size_t i = 0; i < line.size(); ++i) {
      whole += (i == 0 ? "" : "  ") + padded(line[i], widths[i], columns_[i].align);
    }
    whole.erase(whole.find_last_not_of(' ') + 1);
    result += wrapped(whole, width, last) + "\n";
  }
  return result;
}

}  // namespace rapt::cli
