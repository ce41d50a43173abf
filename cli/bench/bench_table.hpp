// Measurements as a table for people, a block of lines for each problem as it is done.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/bench/measurement.hpp"

namespace rapt::cli {

class BenchTable {
 public:
  // As wide as the kernels of the device and `width` allow; absent: with all columns.
  BenchTable(const Device& device, std::span<const Problem> problems,
             std::optional<std::size_t> width);

  std::string header() const;
  // A heading for the problem, then a line for each kernel. `rows` are of one problem.
  std::string rows(std::span<const Measurement> rows) const;

  // The columns in the order in which a narrow terminal goes without them, for users.
  static std::string drop_order();

 private:
  std::string line(const Measurement& row) const;

  std::optional<std::size_t> width_;
  std::size_t kernel_width_;
  std::vector<std::size_t> shown_;  // which columns
  std::size_t config_width_ = 0;    // 0: none
};

}  // namespace rapt::cli
