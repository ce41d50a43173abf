// The ways to run a problem on a device that tests try.
#pragma once

#include <algorithm>
#include <set>
#include <vector>

#include "rapt/rapt.hpp"
#include "src/library/registry.hpp"

namespace rapt::test {

inline bool splits_keys(const Config& config) {
  return std::ranges::any_of(
      config.values, [](const auto& value) { return value.first == "splits" && value.second > 1; });
}

// Every kernel that takes the problem, with the config that it prefers; where it may split keys,
// with the first one that does and the first one that does not.
inline std::vector<PlanOptions> plans_for(const Problem& problem, const Device& device) {
  std::vector<PlanOptions> plans;
  for (const Kernel* kernel : registered_kernels()) {
    if (kernel->backend != device.backend || kernel->operation != problem.operation) continue;
    if (!kernel->supports(problem, device)) continue;
    std::set<bool> seen;
    for (const Config& config : kernel->configs(problem, device)) {
      if (seen.insert(splits_keys(config)).second)
        plans.push_back({.kernel = kernel->name, .config = config});
    }
  }
  return plans;
}

}  // namespace rapt::test
