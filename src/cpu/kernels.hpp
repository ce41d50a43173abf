// The CPU kernels, for the registry.
#pragma once

#include "src/core/kernel.hpp"

namespace rapt {

extern const Kernel cpu_naive;
extern const Kernel cpu_flash;
extern const Kernel cpu_flash_amx;
extern const Kernel cpu_flash_bf16;
extern const Kernel cpu_split_kv;
extern const Kernel cpu_tiny_kv;
extern const Kernel cpu_naive_backward;
extern const Kernel cpu_flash_backward;
extern const Kernel cpu_flash_amx_backward;
extern const Kernel cpu_flash_bf16_backward;

}  // namespace rapt
