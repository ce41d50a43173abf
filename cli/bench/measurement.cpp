#include "cli/bench/measurement.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/bench/race.hpp"

namespace rapt::cli {
namespace {

// What a kernel expects to take with a config it ran with.
double estimate_of(const Finish& finish, const Problem& problem, const Device& device) {
  const Explanation explanation =
      explain(problem, device, {.kernel = finish.kernel, .config = finish.config});
  return std::ranges::find(explanation.candidates, finish.kernel, &Candidate::kernel)->seconds;
}

void complete(Measurement& row, const Finish& finish) {
  row.config = finish.config.to_string();
  row.workspace_bytes = double(finish.workspace_bytes);
  row.error = finish.error;
  row.error_bound = finish.error_bound;
  if (!finish.fault.empty()) row.status = fmt::format("wrong: {}", finish.fault);
  row.seconds = finish.samples.median();
  row.seconds_min = finish.samples.least();
  row.seconds_spread = finish.samples.spread();
  row.samples = static_cast<std::int64_t>(finish.samples.count());
  if (finish.in_a_row) {
    row.replay_seconds = finish.in_a_row->replayed;
    row.launch_seconds = finish.in_a_row->launched;
  }
}

void add_speedups(std::vector<Measurement>& rows, const Device& device, Operation operation) {
  const std::string baseline = fmt::format("{}.naive{}", name(device.backend),
                                           operation == Operation::backward ? "_backward" : "");
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
  const auto chosen =
      std::ranges::find(explanation.candidates, explanation.kernel, &Candidate::kernel);
  const double chosen_seconds = chosen == explanation.candidates.end() ? 0 : chosen->seconds;
  std::vector<Measurement> rows;
  std::vector<std::size_t> racing;  // rows
  std::vector<Entrant> entrants;    // theirs
  for (const KernelInfo& kernel : kernels()) {
    const bool named = kernel.name == options.shared->kernel;
    if (kernel.backend != device.backend || (!options.shared->kernel.empty() && !named)) continue;
    if (kernel.by_name_only && !named) continue;
    if (options.chosen_only && kernel.name != explanation.kernel) continue;
    // Those of another operation are no candidates.
    const auto candidate =
        std::ranges::find(explanation.candidates, kernel.name, &Candidate::kernel);
    const bool takes_part = candidate != explanation.candidates.end();
    if (!takes_part && !named) continue;
    if (options.within > 0 && takes_part && candidate->seconds > options.within * chosen_seconds)
      continue;
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
    if (!takes_part) {
      row.status = fmt::format("refused: it computes {}", name(kernel.operation));
    } else if (candidate->refusal.empty()) {
      racing.push_back(rows.size());
      entrants.push_back({kernel.name, options.shared->config(), candidate->seconds});
    } else {
      row.status = fmt::format("refused: {}", candidate->refusal);
    }
    rows.push_back(std::move(row));
  }

  try {
    const std::vector<Finish> finishes = race(problem, device, roof, entrants,
                                              {options.seconds_per_kernel, Losers::finish,
                                               options.starting, options.warmup, options.runs});
    for (std::size_t i = 0; i < finishes.size(); ++i) {
      complete(rows[racing[i]], finishes[i]);
      rows[racing[i]].estimate_seconds = estimate_of(finishes[i], problem, device);
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::out_of_memory) throw;
    for (const std::size_t row : racing)
      rows[row].status = fmt::format("refused: {}", error.what());
  }
  add_speedups(rows, device, problem.operation);
  return rows;
}

}  // namespace rapt::cli
