// The kernels of the HIP backend, for the registry.
#pragma once

#include "src/core/kernel.hpp"

namespace rapt {

extern const Kernel hip_naive, hip_shared, hip_flash, hip_flash_wide, hip_split_kv, hip_tiny_kv,
    hip_naive_backward, hip_flash_backward;

}  // namespace rapt
