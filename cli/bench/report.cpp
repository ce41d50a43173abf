#include "cli/bench/report.hpp"
#include "src/core/text.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

namespace rapt::cli {
namespace {

constexpr int schema = 1;

// Flop/s where compute is the limit, else bytes/s.
std::string rate(const Measurement& row) {
  if (row.bound == "compute") return fmt::format("{:.1f} Gflop/s", row.flops / *row.seconds * 1e-9);
  return fmt::format("{:.1f} GB/s", row.bytes / *row.seconds * 1e-9);
}

std::string table_row(const Measurement& row) {
  const std::string name = fmt::format("{} {}", row.chosen ? "*" : " ", row.kernel);
  if (!row.seconds) return fmt::format("{:<18} {}\n", name, row.status);
  std::string line = fmt::format("{:<18} {:>8.1e} {:>10} {:>15} {:>5.1f} % {:>11} {:>8}", name,
                                 row.error.value_or(0), human_seconds(*row.seconds), rate(row),
                                 100 * row.roof_seconds / *row.seconds,
                                 human_bytes(row.workspace_bytes.value_or(0)),
                                 row.speedup ? fmt::format("{:.2f} ×", *row.speedup) : "-");
  if (!row.config.empty()) line += fmt::format("  {}", row.config);
  line += '\n';
  if (row.wrong()) line += fmt::format("    {}\n", row.status);
  return line;
}

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
      {"seconds", number_or_null(row.seconds)},
      {"seconds_min", number_or_null(row.seconds_min)},
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

}  // namespace

std::string table_header() {
  return fmt::format("{:<18} {:>8} {:>10} {:>15} {:>7} {:>11} {:>8}\n", "  kernel", "error", "time",
                     "rate", "of roof", "workspace", "× naive");
}

std::string table_rows(std::span<const Measurement> rows) {
  const Measurement& first = rows.front();
  std::string result =
      fmt::format("{}\n    {:.3g} Gflop, {:.3g} MB, {:.3g} flop/byte: roof {}, bound by {}\n",
                  first.problem, first.flops * 1e-9, first.bytes * 1e-6, first.intensity,
                  human_seconds(first.roof_seconds), first.bound);
  for (const Measurement& row : rows) result += table_row(row);
  return result;
}

std::string json_report(const BenchContext& context, std::span<const Measurement> rows) {
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  const Limits& limits = context.limits;
  nlohmann::ordered_json report = {
      {"schema", schema},
      {"rapt", version()},
      {"date", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now))},
      {"command", context.command},
      {"devices",
       {{{"name", context.device.name},
         {"device", context.device.to_string()},
         {"backend", name(context.device.backend)},
         {"threads", context.device.threads},
         {"features", context.device.features},
         {"f32_flops", limits.f32_flops},
         {"matrix_flops", limits.matrix_flops},
         {"read_bandwidth", limits.read_bandwidth},
         {"copy_bandwidth", limits.copy_bandwidth},
         {"memory_bytes", limits.memory_bytes},
         {"cache_bytes", limits.cache_bytes}}}},
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
