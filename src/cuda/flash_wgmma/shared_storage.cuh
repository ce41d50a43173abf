// Registers and shared memory of a block of flash_wgmma.
#pragma once

#include "src/cuda/flash_wgmma/tile_config.hpp"
#include "src/cuda/flash_wgmma/work_tile.cuh"
#include "src/cuda/hopper/registers.cuh"
#include "src/cuda/hopper/swizzled_tile.cuh"
#include "src/cuda/hopper/tile_scheduler.cuh"

namespace rapt::cuda::flash_wgmma {

using hopper::warpgroup_rows;

// The warpgroup that loads needs few registers, fewer yet where two compute.
template <TileConfig config>
using Registers = hopper::RegisterShares<config.warpgroups, config.warpgroups == 2 ? 24 : 32>;

// Tiles of elements of 16 bits.
template <TileConfig config>
struct Tiles {
  using Queries = hopper::SwizzledTile<2, warpgroup_rows, config.qk_dim>;  // of a warpgroup
  using Keys = hopper::SwizzledTile<2, config.keys, config.qk_dim>;
  using Values = hopper::SwizzledTile<2, config.keys, config.v_dim>;
  using Biases = hopper::SwizzledTile<2, warpgroup_rows, config.keys>;   // of a warpgroup
  using Output = hopper::SwizzledTile<2, warpgroup_rows, config.v_dim>;  // of a warpgroup
};

// Under a causal mask the last keys of a tile of queries are seen by its last warpgroup only.
// Whether they can fill a tile of keys, which the others then skip.
template <TileConfig config>
inline constexpr bool skips_tiles = config.keys <= warpgroup_rows*(config.warpgroups - 1);
// Whether output goes to TMA by way of shared memory: where queries were or, with three
// warpgroups, whose heads are small, to room of its own.
template <TileConfig config>
inline constexpr bool staged = config.query_buffers == 2;
template <TileConfig config>
inline constexpr bool staged_in_queries = staged<config>&& config.warpgroups < 3;
// They are read until the output is stored, when queries of later work tiles are there
// already.
inline constexpr int tile_info_stages = 8;

template <TileConfig config>
struct SharedStorage {
  static constexpr int staging_bytes =
      staged<config> && !staged_in_queries<config> ? Tiles<config>::Output::bytes : 1;
  static constexpr int bias_bytes = config.score_mod ? Tiles<config>::Biases::bytes : 1;
  alignas(1024) unsigned char queries[config.query_buffers][config.warpgroups]
                                     [Tiles<config>::Queries::bytes];
  alignas(1024) unsigned char staging[config.warpgroups][staging_bytes];
  alignas(1024) unsigned char keys[config.stages][Tiles<config>::Keys::bytes];
  alignas(1024) unsigned char values[config.stages][Tiles<config>::Values::bytes];
  alignas(1024) unsigned char biases[config.warpgroups][bias_bytes];
  WorkTileInfo tile_infos[tile_info_stages];
  // By each warp that computes: 1 if it has some.
  int promoted_sums[config.warpgroups * 4];
  hopper::TileInfoRing<tile_info_stages> tile_info_ring;
  // A tile is full when it has come, and free when every computing warp is done with it; one of
  // queries where output goes, when that has been stored for every warpgroup.
  hopper::Ring<config.query_buffers> query_ring;
  hopper::Ring<config.stages> key_ring, value_ring;
  // A buffer for each warpgroup. Output goes from there to the storer: a phase for each work
  // tile's, and one before the first.
  hopper::Ring<config.warpgroups> bias_buffers, output_buffers;
  ptx::Barrier values_landed;  // but not yet cleared of what nobody may see

  RAPT_DEVICE void initialize() {
    constexpr int warps = config.warpgroups * 4;
    for (int i = 0; i < warps; ++i) promoted_sums[i] = 0;
    for (int i = 0; i < config.query_buffers; ++i)
      query_ring.initialize(i, 1, staged_in_queries<config> ? config.warpgroups : warps);
    for (int i = 0; i < config.stages; ++i) {
      key_ring.initialize(i, 1, warps);
      value_ring.initialize(i, 1, warps);
    }
    for (int i = 0; i < config.warpgroups; ++i) {
      bias_buffers.initialize(i, 1, 4);
      output_buffers.initialize(i, 4, 1);
    }
    values_landed.initialize(1);
    tile_info_ring.initialize();
    ptx::fence_barrier_init();
  }
};

// The number-th work tile of the block, for those who load and store.
template <TileConfig config>
RAPT_DEVICE const WorkTileInfo& wait_for_tile_info(SharedStorage<config>& shared, int number) {
  const hopper::PipelineState<tile_info_stages> pipe(number);
  shared.tile_info_ring.wait(pipe);
  return shared.tile_infos[pipe.index];
}

// The buffer for the output of the work tile before this one: that of its own queries, whose scores
// are all there, or of this one's, if those are in registers already.
template <TileConfig config>
RAPT_DEVICE int staging_buffer(int work_tile) {
  return hopper::ring_index<config.query_buffers>(config.q_in_registers ? work_tile
                                                                        : work_tile - 1);
}
template <TileConfig config>
RAPT_DEVICE unsigned char* staging(SharedStorage<config>& shared, int group, int work_tile) {
  if constexpr (staged_in_queries<config>)
    return shared.queries[staging_buffer<config>(work_tile)][group];
  return shared.staging[group];
}

}  // namespace rapt::cuda::flash_wgmma
