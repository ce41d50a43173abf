// What launches flash_wgmma, for the .cu files that compile it.
#pragma once

#include "src/cuda/check.hpp"
#include "src/cuda/flash_wgmma/kernel.cuh"
#include "src/cuda/flash_wgmma/launch.hpp"
#include "src/cuda/launch_entry.hpp"
#include "src/cuda/shared_memory.hpp"

namespace rapt::cuda::flash_wgmma {

template <class Kernel>
void launch_kernel(const Parameters& parameters, int blocks, gpu::Where where) {
  const UseDevice current(where.device);
  allow_shared_memory<entry<Kernel>>(where.device, Kernel::shared_bytes);
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(Kernel::threads);
  config.dynamicSmemBytes = Kernel::shared_bytes;
  config.stream = static_cast<cudaStream_t>(where.stream);
  launch_entry(config, entry<Kernel>, parameters);
}

template <TileConfig config>
void launch(const Parameters& parameters, int blocks, gpu::Where where) {
  if (parameters.dtype == DType::f16)
    launch_kernel<FlashWgmma<config, F16>>(parameters, blocks, where);
  else
    launch_kernel<FlashWgmma<config, BF16>>(parameters, blocks, where);
}

}  // namespace rapt::cuda::flash_wgmma
