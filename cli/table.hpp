// Tables for people.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rapt::cli {

enum class Align { left, right };

// Rows of cells under a heading, in columns as wide as their widest cell.
class Table {
 public:
  void column(std::string heading, Align align = Align::left);
  void row(std::vector<std::string> cells);  // one for each column
  std::string to_string() const;             // a newline after every line

 private:
  struct Column {
    std::string heading;
    Align align;
  };
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace rapt::cli
