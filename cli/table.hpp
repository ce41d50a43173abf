// Tables for people.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rapt::cli {

enum class Align { left, right };

// With spaces up to `width` cells.
std::string padded(std::string_view text, std::size_t width, Align align);

// Rows of cells under a heading, in columns as wide as their widest cell.
class Table {
 public:
  void column(std::string heading, Align align = Align::left);
  void row(std::vector<std::string> cells);  // one for each column
  // A newline after every line. Lines that are longer than `width` go on in the next, under their
  // last column.
  std::string to_string(std::optional<std::size_t> width) const;

 private:
  struct Column {
    std::string heading;
    Align align;
  };
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace rapt::cli
