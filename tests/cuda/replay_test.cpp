// Recorded results through explain(): on each problem that several kernels were timed on, the
// choice of this build must be one that was hardly slower than the best.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "src/core/problem_tokens.hpp"
#include "tests/cuda/support.hpp"

namespace rapt::test {
namespace {

using Json = nlohmann::json;

constexpr double allowed = 1.1;      // times the best
constexpr double short_run = 50e-6;  // below which a run is timed as one of many, from a graph

struct Timing {
  double seconds;
  std::optional<double> replayed;
};
// What was timed on a problem, all in one run of the program.
struct Recording {
  std::string date, file;
  Device device;
  std::map<std::string, Timing> kernels;

  double best(const std::function<double(const Timing&)>& seconds) const {
    double least = seconds(kernels.begin()->second);
    for (const auto& [kernel, timing] : kernels) least = std::min(least, seconds(timing));
    return least;
  }
};

Device device_of(const Json& recorded) {
  const std::string name = recorded.at("name");
  const auto known = std::ranges::find(cuda::chips(), name, &cuda::Chip::device_name);
  Device device = known == cuda::chips().end() ? Device() : cuda::device_of(*known, -1);
  device.backend = Backend::cuda;
  device.index = -1;
  device.name = name;
  device.features = recorded.at("features");
  device.multiprocessors = recorded.value("multiprocessors", device.multiprocessors);
  if (recorded.contains("nominal")) {
    const Json& nominal = recorded.at("nominal");
    device.nominal = {.f32_flops = nominal.at("f32_flops"),
                      .matrix_flops = nominal.at("matrix_flops"),
                      .read_bandwidth = nominal.at("read_bandwidth"),
                      .copy_bandwidth = nominal.at("copy_bandwidth"),
                      .memory_bytes = nominal.at("memory_bytes"),
                      .cache_bytes = nominal.at("cache_bytes")};
  }
  return device;
}

// Kernels that a report timed, by problem.
std::map<std::string, Recording> recordings_of(const Json& report, const std::string& file) {
  std::map<std::string, Recording> result;
  const Json& recorded = report.at("devices").at(0);
  if (recorded.at("backend") != "cuda") return result;
  for (const Json& row : report.at("rows")) {
    if (!row.contains("kernel") || row.value("status", "") != "ok") continue;  // other libraries
    Recording& recording = result[canonical_problem(row.at("problem").get<std::string>())];
    recording.date = report.at("date");
    recording.file = file;
    recording.device = device_of(recorded);
    Timing& timing = recording.kernels[row.at("kernel")];
    timing.seconds = row.at("seconds");
    if (row.contains("replay_seconds") && !row.at("replay_seconds").is_null())
      timing.replayed = row.at("replay_seconds").get<double>();
  }
  std::erase_if(result, [](const auto& one) { return one.second.kernels.size() < 2; });
  return result;
}

// The newest of each problem, in all files.
std::map<std::string, Recording> newest_recordings() {
  const char* const source = std::getenv("RAPT_SOURCE_DIR");  // CTest sets it
  const auto folder = std::filesystem::path(source ? source : ".") / "bench/results";
  std::map<std::string, Recording> result;
  const auto add = [&](const Json& report, const std::string& file) {
    for (auto& [problem, recording] : recordings_of(report, file)) {
      Recording& newest = result[problem];
      if (recording.date > newest.date) newest = recording;
    }
  };
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    std::ifstream stream(entry.path());
    const Json file = Json::parse(stream);
    const std::string name = entry.path().filename();
    if (file.contains("rows")) add(file, name);
    if (!file.contains("reports")) continue;
    for (const Json& report : file.at("reports"))
      if (report.contains("rows") && report.contains("devices")) add(report, name);
  }
  return result;
}

// A short problem's time is that of one of many, as far as all were timed so.
double seconds_of(const Recording& recording, const Timing& timing) {
  const bool all_replayed = std::ranges::all_of(
      recording.kernels, [](const auto& one) { return one.second.replayed.has_value(); });
  const bool is_short =
      recording.best([](const Timing& one) { return one.seconds; }) < short_run && all_replayed;
  return is_short ? *timing.replayed : timing.seconds;
}

TEST(RecordedResults, HaveNoKernelThatBeatsTheChoiceByMoreThanATenth) {
  int judged = 0;
  for (const auto& [problem, recording] : newest_recordings()) {
    const std::string chosen(explain(Problem::parse(problem), recording.device).kernel);
    if (!recording.kernels.contains(chosen)) continue;  // it was not there yet
    ++judged;
    const auto seconds = [&](const Timing& timing) { return seconds_of(recording, timing); };
    const double best = recording.best(seconds);
    for (const auto& [kernel, timing] : recording.kernels) {
      if (seconds(timing) > best) continue;
      const double ratio = seconds(recording.kernels.at(chosen)) / best;
      EXPECT_LE(ratio, allowed) << problem << ": " << chosen << " is chosen and takes " << ratio
                                << " times what " << kernel << " does (" << recording.file << ")";
    }
  }
  EXPECT_GE(judged, 20) << "bench/results has too few problems with several kernels";
}

}  // namespace
}  // namespace rapt::test
