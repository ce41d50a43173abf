#include "cli/limits/limits_cache.hpp"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/arrays/input_file.hpp"
#include "cli/arrays/output_file.hpp"
#include "cli/program.hpp"
#include "src/core/user_folder.hpp"

namespace rapt::cli {
namespace {

using Json = nlohmann::ordered_json;
namespace files = std::filesystem;

constexpr int schema = 4;

// Empty if the user has no folder for it.
files::path cache_file() {
  const files::path folder = user_folder("XDG_CACHE_HOME", ".cache");
  return folder.empty() ? folder : folder / "rapt" / "limits.json";
}

double number_from(const Json& json, const char* key) {
  const double value = json.at(key).get<double>();
  if (!std::isfinite(value) || value < 0) throw std::out_of_range(key);
  return value;
}

Rates rates_from(const Json& json) {
  return {.f32_flops = number_from(json, "f32_flops"),
          .matrix_flops = number_from(json, "matrix_flops"),
          .tf32_flops = number_from(json, "tf32_flops"),
          .read_bandwidth = number_from(json, "read_bandwidth"),
          .copy_bandwidth = number_from(json, "copy_bandwidth")};
}

Json to_json(const Rates& rates) {
  return {{"f32_flops", rates.f32_flops},
          {"matrix_flops", rates.matrix_flops},
          {"tf32_flops", rates.tf32_flops},
          {"read_bandwidth", rates.read_bandwidth},
          {"copy_bandwidth", rates.copy_bandwidth}};
}

// The machines of the file; throws if it is not one this version of rapt wrote.
Json read_machines(const files::path& file) {
  const std::vector<std::byte> bytes = read_file(file.string());
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  const Json json = Json::parse(text, text + bytes.size());
  if (json.at("schema") != schema)
    throw Error(ErrorCode::invalid_argument, "it was written by another version of rapt");
  const Json& machines = json.at("machines");
  if (!machines.is_object())
    throw Error(ErrorCode::invalid_argument, "its machines are not an object");
  return machines;
}

bool is_there(const files::path& file) {
  std::error_code unknown;
  return !file.empty() && files::exists(file, unknown);
}

// The sentences of a JSON parser can be long and hold anything; the first line tells enough.
std::string brief(std::string_view sentence) {
  return std::string(sentence.substr(0, std::min<std::size_t>(sentence.find('\n'), 160)));
}

}  // namespace

std::optional<MeasuredLimits> remembered_limits(const std::string& machine) {
  const files::path file = cache_file();
  if (!is_there(file)) return std::nullopt;
  try {
    const Json machines = read_machines(file);
    if (!machines.contains(machine)) return std::nullopt;
    const Json& entry = machines.at(machine);
    MeasuredLimits limits;
    limits.one_thread = rates_from(entry.at("one_thread"));
    limits.all_threads = rates_from(entry.at("all_threads"));
    limits.threads = entry.at("threads").get<std::int32_t>();
    if (limits.threads < 1) throw std::out_of_range("threads");
    limits.dispatch_seconds = number_from(entry, "dispatch_seconds");
    return limits;
  } catch (const std::exception& error) {
    print_error(
        fmt::format("the measured limits in {} are of no use ({}); they are measured anew "
                    "when needed",
                    file.string(), brief(error.what())));
    return std::nullopt;
  }
}

void remember_limits(const std::string& machine, const MeasuredLimits& limits) {
  const files::path file = cache_file();
  if (file.empty()) {
    print_error(
        "the measured limits are not remembered: neither XDG_CACHE_HOME nor HOME names a "
        "folder");
    return;
  }
  Json machines = Json::object();
  try {
    if (is_there(file)) machines = read_machines(file);
  } catch (const std::exception&) {
    // Of no use to anybody: replaced.
  }
  machines[machine] = {{"threads", limits.threads},
                       {"dispatch_seconds", limits.dispatch_seconds},
                       {"one_thread", to_json(limits.one_thread)},
                       {"all_threads", to_json(limits.all_threads)}};
  try {
    files::create_directories(file.parent_path());
    OutputFile output(file.string());
    output.write(Json({{"schema", schema}, {"machines", machines}}).dump(2) + "\n");
    output.commit();
  } catch (const std::exception& error) {
    print_error(fmt::format("the measured limits are not remembered: {}", brief(error.what())));
  }
}

}  // namespace rapt::cli
