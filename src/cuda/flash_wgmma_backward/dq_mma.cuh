// The product that makes a part of dQ, of 64 queries × 64 dims, over all keys of the block:
//
//   dQ (64, 64) = dS (64, keys) K (keys, 64)
//
// with dSᵀ in shared memory, keys × queries, from where tensor cores read it the other way round.
#pragma once

#include "src/cuda/flash_wgmma_backward/shared_storage.cuh"
#include "src/cuda/ptx/wgmma.cuh"

namespace rapt::cuda::flash_wgmma_backward {

// Parts follow each other by panels of queries, or where there is one of them by panels of dims.
template <TileConfig config, class Element>
RAPT_DEVICE void issue_dq_part(const unsigned char* gradients, const unsigned char* keys, int part,
                               float (&dq)[8][4]) {
  using Keys = Tiles<config>::Keys;
  using Gradients = Tiles<config>::Gradients;
  constexpr bool by_queries = config.queries > 64;
  static_assert(!by_queries || config.dim == 64);
  const auto a = ptx::MatrixDescriptor::mn_major(
      gradients + (by_queries ? part * Gradients::panel_bytes : 0), Gradients::panel_bytes);
  const auto b = ptx::MatrixDescriptor::mn_major(keys + (by_queries ? 0 : part * Keys::panel_bytes),
                                                 Keys::panel_bytes);
  ptx::wgmma_fence();
  RAPT_UNROLL
  for (int i = 0; i < config.keys / 16; ++i)
    ptx::Wgmma<Element, 64>::mma_both_mn_major(dq, a.offset_by(i * 16 * hopper::panel_row_bytes),
                                               b.offset_by(i * 16 * hopper::panel_row_bytes),
                                               i > 0);
  ptx::wgmma_commit();
}

}  // namespace rapt::cuda::flash_wgmma_backward
