// What `rapt bench` tells of a problem: every kernel that takes it, raced, beside the roof.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options.hpp"
#include "rapt/rapt.hpp"

namespace rapt::cli {

// One kernel on one problem: a row of the bench table and of its JSON.
struct Measurement {
  std::string problem, device, kernel, config;
  bool chosen = false;
  std::string status = "ok";                   // ok | refused: why | wrong: what
  double flops = 0, bytes = 0, intensity = 0;  // intensity: flops per byte
  double roof_seconds = 0;
  std::string bound;  // of the roof: compute or memory
  // Absent for a refusal:
  std::optional<double> estimate_seconds;      // what the kernel expected, with that config
  std::optional<double> seconds, seconds_min;  // median and least
  std::optional<double> seconds_spread;        // Samples::spread()
  // Of one of many in a row, from a graph and by the host, for short problems on a GPU.
  std::optional<double> replay_seconds, launch_seconds;
  std::int64_t samples = 0;
  std::optional<double> workspace_bytes, error, error_bound;
  std::optional<double> speedup;  // over the backend's naive kernel, where that ran too

  bool wrong() const { return status.starts_with("wrong"); }
};

struct MeasureOptions {
  double seconds_per_kernel = 0.5;  // how long to sample; at least three samples if one takes less
  const SharedOptions* shared = nullptr;
  bool chosen_only = false;  // not the kernels that would not be chosen
  // Nor those whose estimate is more than so many times that of the chosen one; 0: all.
  double within = 0;
  std::function<void(std::string_view kernel, double seconds)> starting;  // as race() tells it
  std::size_t warmup = 0, runs = 0;                                       // as of RaceRules
};

// `limits`: what the roof is drawn from.
std::vector<Measurement> measure(const Problem& problem, const Device& device, const Limits& limits,
                                 const MeasureOptions& options);

}  // namespace rapt::cli
