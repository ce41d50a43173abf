// `rapt devices`: the chips here, their features, nominal and measured limits.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/limits/limits.hpp"
#include "cli/program.hpp"
#include "cli/table.hpp"
#include "cli/terminal.hpp"
#include "src/core/text.hpp"

namespace rapt::cli {
namespace {

struct DevicesOptions {
  bool measure = false, json = false;
};

struct Row {
  Device device;
  std::optional<MeasuredLimits> measured;
};

// Of all chips, one that cannot be measured (a busy GPU) keeps nobody from the others.
std::optional<MeasuredLimits> measured_or_warned(const Device& device) {
  if (!can_measure(device)) return std::nullopt;
  try {
    return measured_limits(device, Freshness::now);
  } catch (const Error& error) {
    print_warning(error.what());
    return cached_limits(device);
  }
}

std::vector<Row> rows(const DevicesOptions& options, const SharedOptions& shared) {
  if (shared.names_device() || shared.thread_number) {
    const Device device = shared.device();
    return {{device,
             options.measure ? measured_limits(device, Freshness::now) : cached_limits(device)}};
  }
  std::vector<Row> result;
  for (const Device& device : devices())
    result.push_back(
        {device, options.measure ? measured_or_warned(device) : cached_limits(device)});
  return result;
}

std::string or_dash(double value, const std::string& text) { return value > 0 ? text : "-"; }

void print_limits(const Row& row) {
  const Limits& nominal = row.device.nominal;
  Table table;
  table.column("  limits");
  table.column("nominal", Align::right);
  std::vector<const Rates*> measured;
  if (row.measured && row.device.backend == Backend::cpu) {
    table.column("measured, 1 thread", Align::right);
    measured = {&row.measured->one_thread};
    if (row.measured->threads > 1) {
      table.column("measured, " + counted(row.measured->threads, "thread"), Align::right);
      measured.push_back(&row.measured->all_threads);
    }
  } else if (row.measured) {
    table.column("measured", Align::right);
    measured = {&row.measured->all_threads};
  }
  const auto line = [&](const char* what, double at_best, double Rates::*rate, const char* unit) {
    std::vector<std::string> cells = {what, or_dash(at_best, human_quantity(at_best, unit))};
    for (const Rates* rates : measured)
      cells.push_back(or_dash(rates->*rate, human_quantity(rates->*rate, unit)));
    table.row(cells);
  };
  line("  f32", nominal.f32_flops, &Rates::f32_flops, "flop/s");
  line("  products of f16 and bf16", nominal.matrix_flops, &Rates::matrix_flops, "flop/s");
  if (row.device.backend != Backend::cpu)
    line("  f32 as TF32 on matrix units", 0, &Rates::tf32_flops, "flop/s");
  line("  memory, read", nominal.read_bandwidth, &Rates::read_bandwidth, "B/s");
  line("  memory, copy", nominal.copy_bandwidth, &Rates::copy_bandwidth, "B/s");
  if (row.measured && row.device.backend == Backend::cpu) {
    const double seconds = row.measured->dispatch_seconds;
    std::vector<std::string> cells(1 + measured.size(), "-");
    cells.front() = "  dispatch of a job";
    cells.push_back(or_dash(seconds, human_seconds(seconds)));
    table.row(cells);
  }
  fmt::print("{}", table.to_string(terminal_width(stdout)));
}

void print_block(const Row& row) {
  const Device& device = row.device;
  const Limits& nominal = device.nominal;
  const auto line = [](std::string_view label, std::string_view value) {
    fmt::print("  {:<15}  {}\n", label, value);
  };
  fmt::print("{}: {}\n", device.to_string(), device.name);
  line("backend", name(device.backend));
  line("features", device.features.empty() ? "-" : device.features);
  if (device.backend == Backend::cpu) {
    line("threads", std::to_string(device.threads));
  } else {
    line("multiprocessors", std::to_string(device.multiprocessors));
  }
  line("memory", or_dash(nominal.memory_bytes, human_bytes(nominal.memory_bytes)));
  line("cache", or_dash(nominal.cache_bytes, human_bytes(nominal.cache_bytes)));
  print_limits(row);
  if (can_measure(device) && !row.measured)
    fmt::print("  not measured yet: rapt devices --measure\n");
}

using Json = nlohmann::ordered_json;

Json or_null(double value) { return value > 0 ? Json(value) : Json(); }

// What Limits and Rates name alike.
template <class Source>
Json limits_json(const Source& source) {
  return {{"f32_flops", or_null(source.f32_flops)},
          {"matrix_flops", or_null(source.matrix_flops)},
          {"read_bandwidth", or_null(source.read_bandwidth)},
          {"copy_bandwidth", or_null(source.copy_bandwidth)}};
}

Json rates_json(const Rates& rates) {
  Json json = limits_json(rates);
  json["tf32_flops"] = or_null(rates.tf32_flops);
  return json;
}

Json to_json(const Row& row) {
  const Device& device = row.device;
  Json features = Json::array();
  std::istringstream words(device.features);
  for (std::string word; words >> word;) features.push_back(word);
  Json measured;
  if (row.measured) {
    measured = {{"threads", row.measured->threads},
                {"dispatch_seconds", or_null(row.measured->dispatch_seconds)},
                {"one_thread", rates_json(row.measured->one_thread)},
                {"all_threads", rates_json(row.measured->all_threads)}};
  }
  return {{"device", device.to_string()},
          {"name", device.name},
          {"backend", name(device.backend)},
          {"features", features},
          {"threads", device.threads},
          {"multiprocessors", device.multiprocessors},
          {"memory_bytes", or_null(device.nominal.memory_bytes)},
          {"cache_bytes", or_null(device.nominal.cache_bytes)},
          {"nominal", limits_json(device.nominal)},
          {"measured", measured}};
}

void print(const std::vector<Row>& list, bool as_json) {
  if (as_json) {
    Json result = Json::array();
    for (const Row& row : list) result.push_back(to_json(row));
    fmt::print("{}\n", result.dump(2));
    return;
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (i > 0) fmt::print("\n");
    print_block(list[i]);
  }
}

}  // namespace

void add_devices(CLI::App& app, Session& session) {
  const auto options = std::make_shared<DevicesOptions>();
  CLI::App& command = add_command(
      app, session, "devices",
      "List the chips here: features, threads, memory, nominal limits, and the limits that were "
      "measured.",
      {.device = "Show this chip only: cpu, cuda:0 or hip:0. Default: all",
       .kernel = nullptr,
       .config = nullptr},
      [options, &session] {
        print(rows(*options, session.options), options->json);
        return success;
      });
  command.add_flag("--measure", options->measure,
                   "Measure the limits now (some seconds) and remember them in the user's cache "
                   "folder");
  command.add_flag("--json", options->json, "Print the list as JSON");
}

}  // namespace rapt::cli
