#include "cli/bench/bench_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "cli/bench/stopwatch.hpp"
#include "cli/table.hpp"
#include "cli/terminal.hpp"
#include "src/core/text.hpp"

namespace rapt::cli {
namespace {

// Flop/s where compute is the limit, else bytes/s.
std::string rate(const Measurement& row) {
  return row.bound == "compute" ? human_quantity(row.flops / *row.seconds, "flop/s")
                                : human_quantity(row.bytes / *row.seconds, "B/s");
}

std::string or_dash(const std::optional<double>& seconds) {
  return seconds ? human_seconds(*seconds) : "-";
}

// Beside the median, in percent of it.
std::string spread(const Measurement& row) {
  if (!row.seconds_spread || *row.seconds <= 0) return "-";
  const double percent = 100 * *row.seconds_spread / *row.seconds;
  return percent < 9.95 ? fmt::format("{:.1f} %", percent) : fmt::format("{:.0f} %", percent);
}

struct Column {
  const char* heading;
  std::size_t width;
  int dropped;         // when a narrow terminal goes without it: the least first; 0: never
  bool for_own_clock;  // only where the device can time runs in a row
  std::string (*cell)(const Measurement& row);
};

// Between the kernel and its config.
const Column columns[] = {
    {"error", 7, 7, false,
     [](const Measurement& row) { return fmt::format("{:.1e}", row.error.value_or(0)); }},
    {"time", 7, 0, false, [](const Measurement& row) { return human_seconds(*row.seconds); }},
    {"±", 5, 5, false, spread},
    {"replayed", 8, 4, true, [](const Measurement& row) { return or_dash(row.replay_seconds); }},
    {"launched", 8, 3, true, [](const Measurement& row) { return or_dash(row.launch_seconds); }},
    {"rate", 12, 6, false, rate},
    {"of roof", 7, 0, false,
     [](const Measurement& row) {
       return fmt::format("{:.1f} %", 100 * row.roof_seconds / *row.seconds);
     }},
    {"workspace", 9, 2, false,
     [](const Measurement& row) { return human_bytes(row.workspace_bytes.value_or(0)); }},
    {"× naive", 8, 8, false,
     [](const Measurement& row) {
       return row.speedup ? fmt::format("{:.2f} ×", *row.speedup) : std::string("-");
     }},
};
constexpr const char* config_heading = "config";  // dropped first
constexpr std::size_t narrowest_config = 12;
constexpr std::size_t gap = 2;

// Of the operations that problems have.
std::size_t longest_kernel(const Device& device, std::span<const Problem> problems) {
  std::size_t longest = 0;
  for (const KernelInfo& kernel : kernels()) {
    const bool takes_part =
        std::ranges::find(problems, kernel.operation, &Problem::operation) != problems.end();
    if (kernel.backend == device.backend && takes_part)
      longest = std::max(longest, kernel.name.size());
  }
  return longest;
}

}  // namespace

BenchTable::BenchTable(const Device& device, std::span<const Problem> problems,
                       std::optional<std::size_t> width)
    : width_(width), kernel_width_(2 + longest_kernel(device, problems)) {
  std::size_t used = kernel_width_;
  for (std::size_t i = 0; i < std::size(columns); ++i) {
    if (columns[i].for_own_clock && !has_own_clock(device)) continue;
    shown_.push_back(i);
    used += gap + columns[i].width;
  }
  const std::size_t most = width.value_or(std::numeric_limits<std::size_t>::max());
  while (used > most) {
    const auto rank = [](std::size_t column) {
      return columns[column].dropped > 0 ? columns[column].dropped
                                         : std::numeric_limits<int>::max();
    };
    const auto least = std::ranges::min_element(shown_, {}, rank);
    if (columns[*least].dropped == 0) break;
    used -= gap + columns[*least].width;
    shown_.erase(least);
  }
  if (most >= used + gap + narrowest_config) config_width_ = most - used - gap;
}

std::string BenchTable::drop_order() {
  std::vector<const Column*> dropped;
  for (const Column& column : columns) {
    if (column.dropped > 0) dropped.push_back(&column);
  }
  std::ranges::sort(dropped, {}, &Column::dropped);
  std::string order = config_heading;
  for (const Column* column : dropped) order += fmt::format(", {}", column->heading);
  return order;
}

std::string BenchTable::header() const {
  std::string result = padded("  kernel", kernel_width_, Align::left);
  for (const std::size_t column : shown_) {
    result += std::string(gap, ' ') +
              padded(columns[column].heading, columns[column].width, Align::right);
  }
  if (config_width_ > 0) result += std::string(gap, ' ') + config_heading;
  return result + "\n";
}

std::string BenchTable::rows(std::span<const Measurement> rows) const {
  const Measurement& first = rows.front();
  const std::string work = fmt::format(
      "    {:.3g} Gflop, {:.3g} MB, {:.3g} flop/byte: roof {}, bound by {}", first.flops * 1e-9,
      first.bytes * 1e-6, first.intensity, human_seconds(first.roof_seconds), first.bound);
  std::string result = wrapped(first.problem, width_, 4) + "\n" + wrapped(work, width_, 4) + "\n";
  for (const Measurement& row : rows) result += line(row);
  return result;
}

std::string BenchTable::line(const Measurement& row) const {
  std::string line =
      padded(fmt::format("{} {}", row.chosen ? "*" : " ", row.kernel), kernel_width_, Align::left);
  if (!row.seconds) {
    return wrapped(line + std::string(gap, ' ') + row.status, width_, kernel_width_ + gap) + "\n";
  }
  for (const std::size_t column : shown_) {
    line += std::string(gap, ' ') +
            padded(columns[column].cell(row), columns[column].width, Align::right);
  }
  if (config_width_ > 0 && !row.config.empty())
    line += std::string(gap, ' ') + cut(row.config, config_width_);
  line += '\n';
  if (row.wrong()) line += wrapped("    " + row.status, width_, 4) + "\n";
  return line;
}

}  // namespace rapt::cli
