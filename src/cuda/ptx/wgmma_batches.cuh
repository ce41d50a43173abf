// Batches of a warpgroup's products (wgmma.cuh), which run behind the program's back. wgmma_fence()
// comes before the first product that uses registers the program wrote; wgmma_commit() closes a
// batch; wgmma_wait<n>() returns when no more than the n youngest batches still run. Until then
// their registers must not be touched.
#pragma once

#include "src/gpu/target.hpp"

namespace rapt::cuda::ptx {

RAPT_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
RAPT_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int batches>
RAPT_DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(batches) : "memory");
}

// Tells the compiler that registers changed while it did not look.
template <int n>
RAPT_DEVICE void fence_operand(float (&registers)[n][4]) {
  RAPT_UNROLL
  for (int j = 0; j < n; ++j) {
    RAPT_UNROLL
    for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(registers[j][i])::"memory");
  }
}

}  // namespace rapt::cuda::ptx
