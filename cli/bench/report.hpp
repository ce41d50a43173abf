// Measurements as JSON and as CSV, and how good rapt's choices were.
#pragma once

#include <span>
#include <string>

#include "cli/bench/measurement.hpp"

namespace rapt::cli {

constexpr int report_schema = 1;  // of the JSON

struct BenchContext {
  Device device;
  Limits limits;        // what roofs are drawn from
  std::string command;  // that measures the same again
};

// On how many problems the choice was within a tenth of the best kernel, and where it lost most.
// Empty where there was nothing to choose. Rows of a problem stand together.
std::string choice_summary(std::span<const Measurement> rows);

std::string json_report(const BenchContext& context, std::span<const Measurement> rows);
std::string csv_report(std::span<const Measurement> rows);

}  // namespace rapt::cli
