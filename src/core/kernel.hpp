// A kernel, as the registry knows it: plain data and functions.
//
// supports() is a promise: if it says yes, run() succeeds and is right for every arguments that
// match the problem. The conformance harness (src/verify) holds every registered kernel to that.
// docs/adding-a-kernel.md walks through one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "rapt/rapt.hpp"

namespace rapt {

struct Task {
  const Problem& problem;
  const Device& device;  // on the CPU, device.threads is how many the task may use at once
  const Config& config;
  Executor* executor;  // set while running on the CPU
};

// Yes, or a refusal: a sentence a user can act on.
struct Support {
  std::string refusal;
  static Support yes() { return {}; }
  static Support no(std::string sentence) { return {std::move(sentence)}; }
  explicit operator bool() const { return refusal.empty(); }
};

struct Estimate {
  double seconds;
  std::string_view bound;  // compute, memory or overhead
};

struct Kernel {
  std::string_view name, summary;
  Backend backend;
  bool by_name_only;  // never chosen by itself
  Support (*supports)(const Problem&, const Device&);
  // All it can run with, best guess first; never empty.
  std::vector<Config> (*configs)(const Problem&, const Device&);
  Estimate (*estimate)(const Task&);
  std::size_t (*workspace)(const Task&);
  void (*run)(const Task&, const Arguments&, const Launch&);
  // When a plan is made: what run() needs and may not allocate. Null: nothing.
  void (*prepare)(const Task&) = nullptr;
};

// For kernels that have nothing to tune.
inline std::vector<Config> one_empty_config(const Problem&, const Device&) { return {Config{}}; }

// The least time for so much work at such rates, plus a fixed overhead, and which of the three
// dominates.
Estimate estimate_from(double flops, double flops_per_second, double bytes, double bytes_per_second,
                       double overhead);

}  // namespace rapt
