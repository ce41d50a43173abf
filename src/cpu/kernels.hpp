// The CPU kernels, for the registry.
#pragma once

#include "src/core/kernel.hpp"

namespace rapt {

extern const Kernel cpu_naive;

}  // namespace rapt
