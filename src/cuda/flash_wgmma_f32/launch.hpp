// The tiles that flash_wgmma_f32 is compiled for, and their launches. The device code of each is
// compiled in one of the .cu files.
#pragma once

#include "src/gpu/flash_mma/parameters.hpp"

namespace rapt::cuda::flash_wgmma_f32 {

namespace flash_mma = gpu::flash_mma;
using flash_mma::Parameters;
using flash_mma::TileConfig;

// Of a block, beside those that compute.
inline constexpr int producer_threads = 128;

// One or two warpgroups compute, on 64 rows each: a warp has 16 of them and all keys of a tile.
constexpr TileConfig tiles(int dim, int warpgroups, int keys, bool score_mod) {
  return {
      .mma_kind = flash_mma::MmaKind::tf32x3,
      .dim = dim,
      .row_warps = warpgroups * 4,
      .key_warps = 1,
      .row_tiles = 1,
      .keys = keys,
      .stages = 1,
      .blocks = 1,
      .sum_depth = dim < 128 ? dim : 128,
      .sum_keys = 0,  // those of a tile
      .sum_dims = 0,  // all
      .score_mod = score_mod,
  };
}
// The least that hold a head dim.
constexpr TileConfig tiles_for(int dim, bool score_mod) {
  if (dim <= 32) return tiles(32, 2, 128, score_mod);
  if (dim <= 64) return tiles(64, 2, 64, score_mod);
  if (dim <= 128) return tiles(128, 2, 64, score_mod);
  return tiles(256, 1, 32, score_mod);
}

template <TileConfig config>
void launch(const Parameters& parameters, gpu::Where where);

}  // namespace rapt::cuda::flash_wgmma_f32
