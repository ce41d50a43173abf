// Which kernel solves a problem on a device, and why.
#pragma once

#include "src/core/kernel.hpp"

namespace rapt {

struct Selection {
  const Kernel* kernel;
  Config config;
  std::string reason;
  std::vector<std::string> warnings;  // why a tuning file, or what it says, is ignored
};

// The kernel that is named (or else RAPT_KERNEL) beats the winner in the tuning file, which beats
// the least estimate. Throws Error if that kernel does not exist or refuses, or if nobody takes the
// problem. A kernel refuses where each of its configs needs more workspace than the limit.
Selection select(const Problem& problem, const Device& device, const PlanOptions& options);

// Throws Error if RAPT_KERNEL names a kernel that does not exist or runs on another backend.
void check_environment(const Device& device);

}  // namespace rapt
