#include "cli/bench/report.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

namespace rapt::cli {
namespace {

constexpr double good_choice = 0.1;  // the loss against the best kernel that a choice may have

nlohmann::ordered_json number_or_null(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

std::optional<double> per_second(double work, const std::optional<double>& seconds) {
  if (!seconds || *seconds <= 0) return std::nullopt;
  return work / *seconds * 1e-9;
}

nlohmann::ordered_json to_json(const Measurement& row) {
  std::optional<double> fraction;
  if (row.seconds && *row.seconds > 0) fraction = row.roof_seconds / *row.seconds;
  return {
      {"problem", row.problem},
      {"device", row.device},
      {"kernel", row.kernel},
      {"config", row.config},
      {"chosen", row.chosen},
      {"status", row.status},
      {"estimate_seconds", number_or_null(row.estimate_seconds)},
      {"seconds", number_or_null(row.seconds)},
      {"seconds_min", number_or_null(row.seconds_min)},
      {"seconds_spread", number_or_null(row.seconds_spread)},
      {"replay_seconds", number_or_null(row.replay_seconds)},
      {"launch_seconds", number_or_null(row.launch_seconds)},
      {"samples", row.samples},
      {"flops", row.flops},
      {"bytes", row.bytes},
      {"gflops", number_or_null(per_second(row.flops, row.seconds))},
      {"gbps", number_or_null(per_second(row.bytes, row.seconds))},
      {"roof_seconds", row.roof_seconds},
      {"roof_fraction", number_or_null(fraction)},
      {"bound", row.bound},
      {"intensity", row.intensity},
      {"workspace_bytes", number_or_null(row.workspace_bytes)},
      {"error", number_or_null(row.error)},
      {"error_bound", number_or_null(row.error_bound)},
      {"speedup", number_or_null(row.speedup)},
  };
}

nlohmann::ordered_json to_json(const Limits& limits) {
  return {{"f32_flops", limits.f32_flops},           {"matrix_flops", limits.matrix_flops},
          {"read_bandwidth", limits.read_bandwidth}, {"copy_bandwidth", limits.copy_bandwidth},
          {"memory_bytes", limits.memory_bytes},     {"cache_bytes", limits.cache_bytes}};
}

// With the limits that roofs are drawn from, and the nominal ones, which estimates follow from.
nlohmann::ordered_json device_json(const BenchContext& context) {
  nlohmann::ordered_json result = {
      {"name", context.device.name},
      {"device", context.device.to_string()},
      {"backend", name(context.device.backend)},
      {"threads", context.device.threads},
      {"multiprocessors", context.device.multiprocessors},
      {"features", context.device.features},
  };
  result.update(to_json(context.limits));
  result["nominal"] = to_json(context.device.nominal);
  return result;
}

std::string csv_field(const nlohmann::ordered_json& value) {
  if (value.is_null()) return "";
  if (!value.is_string()) return value.dump();
  std::string quoted(1, '"');
  for (const char letter : value.get<std::string>()) {
    quoted.append(letter == '"' ? 2 : 1, letter);
  }
  quoted.push_back('"');
  return quoted;
}

// The choice beside the best kernel, where both were timed and right.
struct Choice {
  const Measurement* chosen = nullptr;
  const Measurement* best = nullptr;
  std::size_t kernels = 0;  // that were timed and right
  double loss() const { return *chosen->seconds / *best->seconds - 1; }
};

Choice choice_among(std::span<const Measurement> rows_of_a_problem) {
  Choice choice;
  for (const Measurement& row : rows_of_a_problem) {
    if (!row.seconds || row.wrong()) continue;
    ++choice.kernels;
    if (row.chosen) choice.chosen = &row;
    if (!choice.best || *row.seconds < *choice.best->seconds) choice.best = &row;
  }
  return choice;
}

}  // namespace

std::string choice_summary(std::span<const Measurement> rows) {
  std::size_t problems = 0, good = 0;
  bool any_choice = false;
  Choice worst;
  while (!rows.empty()) {
    const auto other = std::ranges::find_if(
        rows, [&](const Measurement& row) { return row.problem != rows.front().problem; });
    const auto count = static_cast<std::size_t>(other - rows.begin());
    const Choice choice = choice_among(rows.first(count));
    rows = rows.subspan(count);
    if (!choice.chosen) continue;
    ++problems;
    good += choice.loss() <= good_choice;
    any_choice = any_choice || choice.kernels > 1;
    if (!worst.chosen || choice.loss() > worst.loss()) worst = choice;
  }
  if (!any_choice) return "";
  std::string line = fmt::format("choice within {:.0f} % of the best kernel on {} of {} problems",
                                 100 * good_choice, good, problems);
  if (worst.loss() > 0) {
    line += fmt::format("; worst: {} took {:.1f} % longer than {} on \"{}\"", worst.chosen->kernel,
                        100 * worst.loss(), worst.best->kernel, worst.chosen->problem);
  }
  return line + "\n";
}

std::string json_report(const BenchContext& context, std::span<const Measurement> rows) {
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  nlohmann::ordered_json report = {
      {"schema", report_schema},
      {"rapt", version()},
      {"date", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now))},
      {"command", context.command},
      {"devices", nlohmann::ordered_json::array({device_json(context)})},
      {"rows", nlohmann::ordered_json::array()},
  };
  for (const Measurement& row : rows) report["rows"].push_back(to_json(row));
  return report.dump(1) + "\n";
}

std::string csv_report(std::span<const Measurement> rows) {
  std::string header, body;
  for (const Measurement& row : rows) {
    const nlohmann::ordered_json fields = to_json(row);
    std::string names, line;
    for (const auto& [name, value] : fields.items()) {
      names += fmt::format("{}{}", names.empty() ? "" : ",", name);
      line += fmt::format("{}{}", line.empty() ? "" : ",", csv_field(value));
    }
    header = names + "\n";
    body += line + "\n";
  }
  return header + body;
}

}  // namespace rapt::cli
