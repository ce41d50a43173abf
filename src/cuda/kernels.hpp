// The kernels of the CUDA backend, for the registry.
#pragma once

#include "src/core/kernel.hpp"

namespace rapt {

extern const Kernel cuda_naive, cuda_gemm, cuda_shared, cuda_flash, cuda_flash_wide, cuda_split_kv,
    cuda_tiny_kv, cuda_flash_mma, cuda_flash_wgmma, cuda_flash_wgmma_f32, cuda_naive_backward,
    cuda_flash_backward, cuda_flash_mma_backward, cuda_flash_wgmma_backward,
    cuda_flash_wgmma_backward_wide;

}  // namespace rapt
