// What launches flash_wgmma, for the .cu files that compile it.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/cuda/check.hpp"
#include "src/cuda/flash_wgmma/kernel.cuh"
#include "src/cuda/flash_wgmma/launch.hpp"

namespace rapt::cuda::flash_wgmma {

// A kernel gets more than 48 KiB of shared memory only after asking for it, once on each device.
template <class Kernel>
void allow_shared_memory(int device) {
  static std::atomic<std::uint64_t> allowed = 0;  // a bit for each device
  const std::uint64_t bit = std::uint64_t{1} << (device % 64);
  if (allowed.load(std::memory_order_relaxed) & bit) return;
  require(cudaFuncSetAttribute(entry<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               Kernel::shared_bytes),
          "give a kernel its shared memory");
  if (device < 64) allowed.fetch_or(bit, std::memory_order_relaxed);
}

template <class Kernel>
void launch_kernel(const Parameters& parameters, int blocks, gpu::Where where) {
  const UseDevice current(where.device);
  allow_shared_memory<Kernel>(where.device);
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(Kernel::threads);
  config.dynamicSmemBytes = Kernel::shared_bytes;
  config.stream = static_cast<cudaStream_t>(where.stream);
  require(cudaLaunchKernelEx(&config, entry<Kernel>, parameters), "launch a kernel");
}

template <TileConfig config>
void launch(const Parameters& parameters, int blocks, gpu::Where where) {
  if (parameters.dtype == DType::f16)
    launch_kernel<Kernel<config, F16>>(parameters, blocks, where);
  else
    launch_kernel<Kernel<config, BF16>>(parameters, blocks, where);
}

}  // namespace rapt::cuda::flash_wgmma
