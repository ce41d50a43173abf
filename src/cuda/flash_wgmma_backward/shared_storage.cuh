// Registers and shared memory of a block of flash_wgmma_backward.
#pragma once

#include "src/cuda/flash_wgmma_backward/order.cuh"
#include "src/cuda/hopper/pipeline.cuh"
#include "src/cuda/hopper/registers.cuh"
#include "src/cuda/hopper/swizzled_tile.cuh"

namespace rapt::cuda::flash_wgmma_backward {

template <TileConfig config>
using Registers = hopper::RegisterShares<config.warpgroups, 24>;

// Tiles of elements of 16 bits.
template <TileConfig config>
struct Tiles {
  using Keys = hopper::SwizzledTile<2, config.keys, config.dim>;           // K, V
  using Queries = hopper::SwizzledTile<2, config.queries, config.dim>;     // Q, dO
  using Gradients = hopper::SwizzledTile<2, config.keys, config.queries>;  // dSᵀ, Pᵀ
};

// A part of a tile of dq: 64 queries × 64 dims, in f32.
inline constexpr int dq_part_numbers = 64 * 64, dq_part_bytes = dq_part_numbers * 4;

template <TileConfig config>
struct SharedStorage {
  alignas(1024) unsigned char keys[Tiles<config>::Keys::bytes], values[Tiles<config>::Keys::bytes];
  alignas(1024) unsigned char queries[config.query_stages][Tiles<config>::Queries::bytes];
  alignas(1024) unsigned char douts[config.dout_stages][Tiles<config>::Queries::bytes];
  // dSᵀ, and where dims are split Pᵀ.
  alignas(1024) unsigned char staged[config.splits_dims() ? 2 : 1][Tiles<config>::Gradients::bytes];
  alignas(1024) unsigned char dq[config.dq_buffers][config.warpgroups][dq_part_bytes];
  alignas(16) float exponents[config.query_stages][config.queries];
  alignas(16) float deltas[config.dout_stages][config.queries];
  // For the consumers, who have no registers for it: the number-th work tile, and that of the
  // one before, whose dK and dV may still be on their way. One past the last has no keys (−1).
  WorkTile work_tiles[2];
  Participant participants[config.storers][2 * most_members];
  // Full when they have come (keys: with their work tile), free when every computing warp is done
  // with them. Exponents come with queries, deltas with dout. A stage of dq's rings is a storer.
  hopper::Ring<1> key_ring, value_ring;
  hopper::Ring<config.query_stages> query_ring;
  hopper::Ring<config.dout_stages> dout_ring;
  hopper::Ring<config.storers> dq_rings[config.warpgroups];
  ptx::Barrier landed;  // but not yet cleared of what must not matter

  RAPT_DEVICE void initialize() {
    constexpr int warps = config.warpgroups * 4;
    key_ring.initialize(0, 1, warps);
    value_ring.initialize(0, 1, warps);
    for (int i = 0; i < config.query_stages; ++i) query_ring.initialize(i, 1, warps);
    for (int i = 0; i < config.dout_stages; ++i) dout_ring.initialize(i, 1, warps);
    for (auto& ring : dq_rings)
      for (int i = 0; i < config.storers; ++i) ring.initialize(i, 4, 1);
    landed.initialize(1);
    ptx::fence_barrier_init();
  }
};

}  // namespace rapt::cuda::flash_wgmma_backward
