#include "cli/bench/measurement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "src/verify/data.hpp"
#include "src/verify/reference.hpp"

namespace rapt::cli {
namespace {

constexpr std::uint64_t data_seed = 1;
constexpr std::size_t most_samples = 1000;
constexpr std::size_t most_input_sets = 256;
constexpr double oracle_multiplications = 3e8;  // what checking a problem may cost

struct Roof {
  double seconds;
  std::string bound;
};

Roof roof_of(const Problem& problem, const Limits& limits) {
  const bool matrix = problem.dtype != DType::f32 && limits.matrix_flops > limits.f32_flops;
  const double compute = problem.flops() / (matrix ? limits.matrix_flops : limits.f32_flops);
  const double memory = problem.bytes() / limits.read_bandwidth;
  return {std::max(compute, memory), compute >= memory ? "compute" : "memory"};
}

// Inputs for one problem. Where memory is the limit there are as many sets as outgrow the caches,
// used in turn.
class Inputs {
 public:
  Inputs(const Problem& problem, const Device& device, bool rotate) {
    sets_.push_back(make(problem, device, data_seed));
    if (!rotate) return;
    const double wanted = std::max(2.5 * device.nominal.cache_bytes, 256.0 * (1 << 20));
    const double one = std::max(1.0, double(sets_[0]->input_bytes()));
    const auto count =
        static_cast<std::size_t>(std::clamp(wanted / one, 0.0, double(most_input_sets)));
    while (sets_.size() <= count) sets_.push_back(make(problem, device, data_seed + sets_.size()));
  }
  verify::Data& first() { return *sets_[0]; }
  Arguments next() { return sets_[turn_++ % sets_.size()]->on_device(); }

 private:
  static std::unique_ptr<verify::Data> make(const Problem& problem, const Device& device,
                                            std::uint64_t seed) {
    auto data = std::make_unique<verify::Data>(problem, device, seed, verify::Fill::typical);
    data->upload();
    return data;
  }
  std::vector<std::unique_ptr<verify::Data>> sets_;
  std::size_t turn_ = 0;
};

// A kernel in the race: its plan, its workspace, the seconds of each run so far.
struct Runner {
  Plan plan;
  Buffer workspace;
  std::vector<double> samples;
  double spent = 0;

  Runner(const Problem& problem, const Device& device, const PlanOptions& options)
      : plan(problem, device, options), workspace(device, plan.workspace_bytes()) {}

  double run(const Arguments& arguments) {
    const auto start = std::chrono::steady_clock::now();
    plan.run(arguments, {.workspace = workspace.bytes()});
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  void sample(const Arguments& arguments) {
    samples.push_back(run(arguments));
    spent += samples.back();
  }
  // Done after the time allowed, but not with fewer than three samples unless each takes longer
  // than that by itself.
  bool done(double allowed) const {
    if (samples.empty()) return false;
    return samples.size() >= most_samples ||
           (spent >= allowed && (samples.size() >= 3 || samples[0] > allowed));
  }
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// Sampled rows only: the oracle would take minutes for all of a large problem.
verify::Reference reference_for(const verify::Data& data) {
  const Problem& p = data.problem();
  const double row = std::max(1.0, double(p.kv_len) * double(p.qk_dim + p.v_dim));
  const double rows = std::clamp(oracle_multiplications / row, 4.0, 256.0);
  return {data, static_cast<std::int64_t>(rows), data_seed};
}

void check(Runner& runner, verify::Data& data, const verify::Reference& reference,
           Measurement& row) {
  data.upload();
  runner.run(data.on_device());
  const auto lse = data.lse() ? data.lse()->download() : std::vector<std::byte>();
  const verify::Comparison comparison = reference.compare(data.out().download(), lse);
  row.error = comparison.error;
  row.error_bound = comparison.bound;
  if (!comparison.fault.empty()) row.status = fmt::format("wrong: {}", comparison.fault);
}

void add_speedups(std::vector<Measurement>& rows, const Device& device) {
  const std::string baseline = fmt::format("{}.naive", name(device.backend));
  const auto naive = std::ranges::find(rows, baseline, &Measurement::kernel);
  if (naive == rows.end() || !naive->seconds) return;
  const double seconds = *naive->seconds;
  for (Measurement& row : rows) {
    if (row.seconds) row.speedup = seconds / *row.seconds;
  }
}

}  // namespace

std::vector<Measurement> measure(const Problem& problem, const Device& device, const Limits& limits,
                                 const MeasureOptions& options) {
  const Roof roof = roof_of(problem, limits);
  const Explanation explanation = explain(problem, device);
  std::vector<Measurement> rows;
  std::vector<std::pair<std::size_t, Runner>> runners;  // by row
  for (const KernelInfo& kernel : kernels()) {
    const bool named = kernel.name == options.shared->kernel;
    if (kernel.backend != device.backend || (!options.shared->kernel.empty() && !named)) continue;
    if (kernel.by_name_only && !named) continue;
    Measurement row;
    row.problem = problem.to_string();
    row.device = device.to_string();
    row.kernel = kernel.name;
    row.chosen = kernel.name == explanation.kernel;
    row.flops = problem.flops();
    row.bytes = problem.bytes();
    row.intensity = row.bytes > 0 ? row.flops / row.bytes : 0;
    row.roof_seconds = roof.seconds;
    row.bound = roof.bound;
    const auto candidate =
        std::ranges::find(explanation.candidates, kernel.name, &Candidate::kernel);
    if (candidate->refusal.empty()) {
      Runner runner(problem, device, {.kernel = kernel.name, .config = options.shared->config()});
      row.config = runner.plan.config().to_string();
      row.workspace_bytes = double(runner.plan.workspace_bytes());
      runners.emplace_back(rows.size(), std::move(runner));
    } else {
      row.status = fmt::format("refused: {}", candidate->refusal);
    }
    rows.push_back(std::move(row));
  }
  if (runners.empty()) return rows;

  Inputs inputs(problem, device, roof.bound == "memory");
  const verify::Reference reference = reference_for(inputs.first());
  for (auto& [index, runner] : runners) check(runner, inputs.first(), reference, rows[index]);
  for (bool going = true; going;) {
    going = false;
    for (auto& [index, runner] : runners) {
      if (runner.done(options.seconds_per_kernel)) continue;
      runner.sample(inputs.next());
      going = true;
    }
  }
  for (auto& [index, runner] : runners) {
    rows[index].seconds = median(runner.samples);
    rows[index].seconds_min = std::ranges::min(runner.samples);
    rows[index].samples = static_cast<std::int64_t>(runner.samples.size());
  }
  add_speedups(rows, device);
  return rows;
}

}  // namespace rapt::cli
