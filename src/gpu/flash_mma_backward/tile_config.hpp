// The tiles that flash_mma_backward is compiled for.
#pragma once

#include "src/gpu/flash_mma/tile_config.hpp"

namespace rapt::gpu::flash_mma_backward {

using flash_mma::MmaKind;

// A block owns a tile of keys, or of queries, and streams tiles of the other past it; each warp has
// some of the owned rows, and meets all streamed ones.
struct TileConfig {
  MmaKind mma_kind;
  int dim;        // of queries, keys and values, at most; a multiple of 32
  int warps;      // of a block; a multiple of 2
  int own_tiles;  // of 16 owned rows, of a warp
  int streamed;   // rows of a tile; a multiple of 16
  int stages;     // 2: the next tile is on its way while one is multiplied; 1: it is not
  int blocks;     // that share a multiprocessor
  bool apart;     // dk and dv in launches of their own: sums of both do not fit into registers
  // For f32, as in flash_mma: dims of a first product, rows and dims of a second one.
  int sum_depth = 0, sum_rows = 0, sum_dims = 0;
  // Whether scores may be more than scaled dot products.
  bool score_mod;

  constexpr int own() const { return warps * own_tiles * 16; }
  // What flash_mma's products take: owned rows for its queries, streamed ones for its keys.
  constexpr flash_mma::TileConfig products() const {
    return {.mma_kind = mma_kind,
            .dim = dim,
            .row_warps = warps,
            .key_warps = 1,
            .row_tiles = own_tiles,
            .keys = streamed,
            .stages = stages,
            .blocks = blocks,
            .sum_depth = sum_depth,
            .sum_keys = sum_rows,
            .sum_dims = sum_dims,
            .score_mod = score_mod};
  }
  friend constexpr bool operator==(const TileConfig&, const TileConfig&) = default;
};

// clang-format off

// The least tiles that hold a head dim.
constexpr TileConfig tiles_for(MmaKind mma_kind, int dim, bool score_mod) {
  if (mma_kind == MmaKind::b16) {
    if (dim <= 64)
      return {.mma_kind = mma_kind, .dim = 64, .warps = 4, .own_tiles = score_mod ? 1 : 2, .streamed = 32,
              .stages = 2, .blocks = 2, .apart = false, .score_mod = score_mod};
    if (dim <= 128)
      return {.mma_kind = mma_kind, .dim = 128, .warps = 4, .own_tiles = 1, .streamed = 32,
              .stages = 2, .blocks = 2, .apart = false, .score_mod = score_mod};
    return {.mma_kind = mma_kind, .dim = 256, .warps = 4, .own_tiles = 1, .streamed = 16,
            .stages = 2, .blocks = 1, .apart = true, .score_mod = score_mod};
  }
  if (dim <= 64)
    return {.mma_kind = mma_kind, .dim = 64, .warps = 4, .own_tiles = 1, .streamed = 32,
            .stages = 2, .blocks = 2, .apart = false,
            .sum_depth = 16, .sum_rows = 32, .sum_dims = 32, .score_mod = score_mod};
  if (dim <= 128)
    return {.mma_kind = mma_kind, .dim = 128, .warps = 4, .own_tiles = 1, .streamed = 16,
            .stages = 2, .blocks = 1, .apart = false,
            .sum_depth = 128, .sum_rows = 16, .sum_dims = 16, .score_mod = score_mod};
  return {.mma_kind = mma_kind, .dim = 256, .warps = 2, .own_tiles = 1, .streamed = 16,
          .stages = 1, .blocks = 1, .apart = true,
          .sum_depth = 128, .sum_rows = 16, .sum_dims = 16, .score_mod = score_mod};
}
// clang-format on

// Calls function.operator()<tiles>() with the tiles that hold `dim`.
template <class Function>
void with_tiles(MmaKind mma_kind, int dim, bool score_mod, Function&& function) {
  const auto of_dim = [&]<MmaKind kind, bool mod>() {
    if (dim <= 64) return function.template operator()<tiles_for(kind, 64, mod)>();
    if (dim <= 128) return function.template operator()<tiles_for(kind, 128, mod)>();
    return function.template operator()<tiles_for(kind, 256, mod)>();
  };
  if (mma_kind == MmaKind::b16)
    score_mod ? of_dim.template operator()<MmaKind::b16, true>()
              : of_dim.template operator()<MmaKind::b16, false>();
  else
    score_mod ? of_dim.template operator()<MmaKind::tf32x3, true>()
              : of_dim.template operator()<MmaKind::tf32x3, false>();
}

}  // namespace rapt::gpu::flash_mma_backward
