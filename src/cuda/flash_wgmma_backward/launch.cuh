// What launches flash_wgmma_backward, for the .cu files that compile it.
#pragma once

#include "src/cuda/check.hpp"
#include "src/cuda/flash_wgmma_backward/kernel.cuh"
#include "src/cuda/flash_wgmma_backward/launch.hpp"
#include "src/cuda/launch_entry.hpp"
#include "src/cuda/shared_memory.hpp"

namespace rapt::cuda::flash_wgmma_backward {

// Blocks wait for each other: all of them must be on the chip at once, which a cooperative launch
// sees to, whatever else runs there.
template <class Kernel>
void launch_kernel(const Parameters& parameters, gpu::Where where) {
  const UseDevice current(where.device);
  allow_shared_memory<entry<Kernel>>(where.device, Kernel::shared_bytes);
  cudaLaunchAttribute cooperative = {};
  cooperative.id = cudaLaunchAttributeCooperative;
  cooperative.val.cooperative = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim =
      dim3(static_cast<unsigned>(parameters.schedule.teams * parameters.schedule.members));
  config.blockDim = dim3(Kernel::threads);
  config.dynamicSmemBytes = Kernel::shared_bytes;
  config.stream = static_cast<cudaStream_t>(where.stream);
  config.attrs = &cooperative;
  config.numAttrs = 1;
  launch_entry(config, entry<Kernel>, parameters);
}

template <TileConfig config>
void launch(const Parameters& parameters, gpu::Where where) {
  if (parameters.common.dtype == DType::f16)
    launch_kernel<FlashWgmmaBackward<config, F16>>(parameters, where);
  else
    launch_kernel<FlashWgmmaBackward<config, BF16>>(parameters, where);
}

}  // namespace rapt::cuda::flash_wgmma_backward
