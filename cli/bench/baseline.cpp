#include "cli/bench/baseline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/arrays/input_file.hpp"
#include "cli/bench/report.hpp"
#include "cli/limits/limits.hpp"
#include "cli/table.hpp"
#include "cli/terminal.hpp"
#include "src/core/problem_tokens.hpp"
#include "src/core/text.hpp"

namespace rapt::cli {
namespace {

using Json = nlohmann::ordered_json;

const Json& field(const Json& object, const char* name) {
  if (object.is_object()) return object.at(name);
  throw std::runtime_error(fmt::format("a JSON {} stands where an object with '{}' is expected",
                                       object.type_name(), name));
}

Json report_in(const std::string& path) {
  const std::vector<std::byte> bytes = read_file(path);
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  const Json report = Json::parse(text, text + bytes.size(), nullptr, false);
  if (report.is_discarded()) throw std::runtime_error("it is not JSON");
  const auto schema = field(report, "schema").get<int>();
  if (schema != report_schema) {
    throw std::runtime_error(
        fmt::format("its schema is {}; this rapt reads {}", schema, report_schema));
  }
  return report;
}

// nlohmann's sentences begin with "[json.exception.type_error.302] ".
std::string_view reason(const std::exception& error) {
  const std::string_view sentence = error.what();
  return sentence.starts_with("[json.") ? sentence.substr(sentence.find(' ') + 1) : sentence;
}

std::string machine_text(const Device& device) {
  return fmt::format("{}, {}", device.name, width_of(device));
}

Baseline::Row row_from(const Json& row) {
  Baseline::Row result = {canonical_problem(field(row, "problem").get<std::string>()),
                          field(row, "device").get<std::string>(),
                          field(row, "kernel").get<std::string>(),
                          field(row, "seconds").get<double>()};
  if (result.seconds > 0) return result;
  throw std::runtime_error(
      fmt::format("{} takes {} seconds; times are above 0", result.kernel, result.seconds));
}

}  // namespace

Baseline Baseline::read(const std::string& path) {
  Baseline baseline;
  baseline.name = name_of_input(path);
  try {
    const Json report = report_in(path);
    field(report, "date").get_to(baseline.date);
    field(report, "command").get_to(baseline.command);
    for (const Json& device : field(report, "devices")) {
      baseline.machines.push_back(
          {field(device, "device").get<std::string>(), field(device, "name").get<std::string>(),
           field(device, "threads").get<std::int32_t>(), device.value("multiprocessors", 0)});
    }
    for (const Json& row : field(report, "rows")) {
      const bool timed = field(row, "status") == "ok" && !field(row, "seconds").is_null();
      if (timed) baseline.rows.push_back(row_from(row));
    }
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{} is not what rapt bench --json writes: {}", baseline.name, reason(error)));
  }
  return baseline;
}

bool Baseline::covers(std::span<const Problem> problems, const Device& device,
                      std::string_view kernel) const {
  return std::ranges::any_of(rows, [&](const Row& row) {
    const auto is_row = [&](const Problem& each) { return each.to_string() == row.problem; };
    return row.device == device.to_string() && (kernel.empty() || row.kernel == kernel) &&
           std::ranges::any_of(problems, is_row);
  });
}

std::string Baseline::other_machine(const Device& device) const {
  const auto machine = std::ranges::find(machines, device.to_string(), &Machine::device);
  if (machine == machines.end()) return "";
  Device other = device;
  other.name = machine->chip;
  other.threads = machine->threads;
  other.multiprocessors = machine->multiprocessors;
  const std::string then = machine_text(other), now = machine_text(device);
  if (then == now) return "";
  return fmt::format("{} is of {}, and this is {}: times may differ for that alone", name, then,
                     now);
}

Changes::Changes(const Baseline& baseline, std::span<const Measurement> rows, double threshold)
    : name_(baseline.name), date_(baseline.date), threshold_(threshold) {
  std::vector<Baseline::Row> left = baseline.rows;
  for (const Measurement& row : rows) {
    if (!row.seconds || row.status != "ok") continue;
    const auto before = std::ranges::find_if(left, [&](const Baseline::Row& each) {
      return each.problem == row.problem && each.device == row.device && each.kernel == row.kernel;
    });
    if (before == left.end()) {
      only_here_.push_back({row.kernel, row.problem});
      continue;
    }
    const Change change = {row.kernel, row.problem, before->seconds, *row.seconds};
    left.erase(before);
    const bool slower = change.percent() > threshold, faster = change.percent() < -threshold;
    ++(slower ? slower_ : faster ? faster_ : same_);
    if (slower || faster) changed_.push_back(change);
  }
  for (const Baseline::Row& row : left) only_there_.push_back({row.kernel, row.problem});
  std::ranges::stable_sort(changed_, std::greater(), &Change::percent);
}

// A kernel with several problems is said once.
std::string Changes::listed(std::span<const Timed> rows) {
  std::string result;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string& kernel = rows[i].kernel;
    if (std::ranges::count(rows.first(i), kernel, &Timed::kernel) > 0) continue;
    const auto problems = std::ranges::count(rows, kernel, &Timed::kernel);
    result += fmt::format("{}{} on {}", result.empty() ? "" : ", ", kernel,
                          problems == 1 ? fmt::format("\"{}\"", rows[i].problem)
                                        : fmt::format("{} problems", problems));
  }
  return result;
}

std::string Changes::to_string(std::optional<std::size_t> width) const {
  const std::string counts =
      fmt::format("beside {} of {}: {} slower and {} faster by more than {:g} %, {} about the same",
                  name_, date_, slower_, faster_, threshold_, same_);
  std::string result = wrapped(counts, width, 2) + "\n";
  Table table;
  table.column("  change", Align::right);
  table.column("before", Align::right);
  table.column("now", Align::right);
  table.column("kernel");
  table.column("problem");
  for (const Change& change : changed_) {
    table.row({fmt::format("  {:+.1f} %", change.percent()), human_seconds(change.before),
               human_seconds(change.now), change.kernel, change.problem});
  }
  if (!changed_.empty()) result += table.to_string(width);
  const auto say = [&](std::string_view where, std::span<const Timed> rows) {
    if (rows.empty()) return;
    result += wrapped(fmt::format("timed only {}: {}", where, listed(rows)), width, 2) + "\n";
  };
  say("here", only_here_);
  say("in " + name_, only_there_);
  return result;
}

}  // namespace rapt::cli
