// A kernel gets more than 48 KiB of shared memory only after asking for it, once on each device.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/cuda/check.hpp"

namespace rapt::cuda {

template <auto kernel>
void allow_shared_memory(int device, int bytes) {
  static std::atomic<std::uint64_t> allowed = 0;  // a bit for each device
  const std::uint64_t bit = std::uint64_t{1} << (device % 64);
  if (allowed.load(std::memory_order_relaxed) & bit) return;
  require(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
          "give a kernel its shared memory");
  if (device < 64) allowed.fetch_or(bit, std::memory_order_relaxed);
}

}  // namespace rapt::cuda
