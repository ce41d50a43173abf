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

// `named` (or else RAPT_KERNEL) beats the winner in the tuning file, which beats the least
// estimate. Throws Error if that kernel does not exist or refuses, or if nobody takes the problem.
Selection select(const Problem& problem, const Device& device, std::string_view named,
                 const Config& config);

}  // namespace rapt
