// The least time a device could take for a problem, and what sets it.
#pragma once

#include <string_view>

#include "rapt/rapt.hpp"

namespace rapt::cli {

struct Roof {
  double seconds;
  std::string_view bound;  // compute or memory
};

Roof roof_of(const Problem& problem, const Limits& limits);

}  // namespace rapt::cli
