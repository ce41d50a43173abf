// The kernels of the emulator, for the registry.
#pragma once

#include "src/core/kernel.hpp"

namespace rapt {

extern const Kernel emu_naive, emu_gemm, emu_shared, emu_flash, emu_flash_wide, emu_split_kv,
    emu_tiny_kv, emu_flash_mma, emu_naive_backward, emu_flash_backward, emu_flash_mma_backward;

}  // namespace rapt
