// What a kernel asks for, once on each device, before it uses shared memory.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/cuda/check.hpp"

namespace rapt::cuda {

inline constexpr int most_shared_bytes_on_hopper = 227 << 10;  // of a block

// `bytes` for a block: more than 48 KiB are to be asked for. `most`: a multiprocessor sets aside
// all it can of the memory that is cache otherwise; else the driver decides.
template <auto kernel>
void allow_shared_memory(int device, int bytes, bool most = false) {
  static std::atomic<std::uint64_t> allowed = 0;  // a bit for each device
  const std::uint64_t bit = std::uint64_t{1} << (device % 64);
  if (allowed.load(std::memory_order_relaxed) & bit) return;
  constexpr const char* what = "give a kernel its shared memory";
  require(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), what);
  if (most) {
    require(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                 cudaSharedmemCarveoutMaxShared),
            what);
  }
  if (device < 64) allowed.fetch_or(bit, std::memory_order_relaxed);
}

}  // namespace rapt::cuda
