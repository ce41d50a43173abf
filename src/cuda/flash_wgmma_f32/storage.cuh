// Shared memory of a block of flash_wgmma_f32.
#pragma once

#include "src/cuda/flash_wgmma_f32/launch.hpp"
#include "src/cuda/flash_wgmma_f32/pieces.cuh"
#include "src/cuda/hopper/pipeline.cuh"
#include "src/cuda/hopper/registers.cuh"
#include "src/gpu/flash_mma/block_rows.hpp"

namespace rapt::cuda::flash_wgmma_f32 {

inline constexpr int warps_of_group = hopper::warpgroup_threads / 32;

// The rows that a block's warpgroups compute.
template <TileConfig config>
using Rows = flash_mma::BlockRows<Target, config, float, warps_of_group>;

// A phase for each tile: K and Vᵀ are there, with their low parts, when every warp of the producer
// has arrived, and used when every one of the consumers has.
struct Rings {
  hopper::Ring<1> keys, values;
};

template <TileConfig config>
struct Storage {
  static constexpr int producer_warps = producer_threads / 32, consumer_warps = config.warps();
  using Queries = Swizzled<config.rows(), config.dim>;
  using Keys = Swizzled<config.keys, config.dim>;
  using Values = Swizzled<config.dim, config.keys>;  // transposed
  using QueryPieces = PiecesOfRows<Queries, config.warps() * 32>;
  using KeyPieces = PiecesOfRows<Keys, producer_threads>;
  using ValuePieces = PiecesOfFours<config.keys, config.dim, producer_threads>;
  // Byte offsets of the tiles, and of the rings, which lie behind what the rows leave there too.
  static constexpr int queries_at = 0, keys_at = Queries::bytes;
  static constexpr int key_low_parts_at = keys_at + Keys::bytes;
  static constexpr int values_at = key_low_parts_at + Keys::bytes;
  static constexpr int value_low_parts_at = values_at + Values::bytes;
  static constexpr int loaded_values_at = value_low_parts_at + Values::bytes;
  static constexpr int tile_bytes = loaded_values_at + ValuePieces::bytes;
  static constexpr int merge_bytes = Rows<config>::Merge::bytes;
  static constexpr int rings_at = merge_bytes > tile_bytes ? merge_bytes : tile_bytes;
  static constexpr int bytes = rings_at + sizeof(Rings);

  RAPT_DEVICE static Rings& rings() { return *reinterpret_cast<Rings*>(block_memory + rings_at); }
  RAPT_DEVICE static void initialize() {
    rings().keys.initialize(0, producer_warps, consumer_warps);
    rings().values.initialize(0, producer_warps, consumer_warps);
  }
};

// The warp has filled a buffer, or is done with it.
RAPT_DEVICE void arrive(ptx::Barrier& barrier) {
  __syncwarp();
  barrier.arrive_if(Target::lane() == 0);
}

// What TF32 does not take of x.
template <int n>
RAPT_DEVICE void split(const uint32_t (&x)[n], uint32_t (&low_parts)[n]) {
  RAPT_UNROLL
  for (int i = 0; i < n; ++i) low_parts[i] = ptx::low_part_of_tf32(x[i]);
}

}  // namespace rapt::cuda::flash_wgmma_f32
