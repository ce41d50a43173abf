// Batches of products of a warpgroup, on the model.
#pragma once

#include "src/cuda/ptx/shared.cuh"

namespace rapt::cuda::ptx {

inline void wgmma_fence() {}
inline void wgmma_commit() { model::commit_products(); }
template <int batches>
void wgmma_wait() {
  model::wait_for_products(batches);
}
template <int n>
void fence_operand(float (&)[n][4]) {}

}  // namespace rapt::cuda::ptx
