// The tiles that flash_mma is compiled for.
#pragma once

namespace rapt::gpu::flash_mma {

enum class MmaKind {
  tf32x3,  // f32 in three products of TF32 each, with the accuracy of f32
  tf32,    // f32 rounded to TF32
  b16,     // f16 or bf16
};

// A block's warps: some share the rows, and as many again as `key_warps` the keys of each tile.
struct TileConfig {
  MmaKind mma_kind;
  int dim;        // of queries, keys and values, at most; a multiple of 32
  int row_warps;  // of a block
  int key_warps;  // of a block, for the same rows
  int row_tiles;  // of 16 rows, of a warp
  int keys;       // of a tile; a multiple of 16 for each of the key warps
  int stages;     // 1: keys and values are loaded in turns; 2: both, a tile ahead
  int blocks;     // that share a multiprocessor
  // For f32. First product: dims over which the tensor core sums. Second product: keys and dims
  // whose sums are made at once, to have registers enough.
  int sum_depth = 0, sum_keys = 0, sum_dims = 0;
  // Whether scores may be more than scaled dot products.
  bool score_mod;

  constexpr int warps() const { return row_warps * key_warps; }
  constexpr int rows() const { return row_warps * row_tiles * 16; }
  constexpr int warp_keys() const { return keys / key_warps; }
  friend constexpr bool operator==(const TileConfig&, const TileConfig&) = default;
};

// clang-format off

// Many rows: each warp has some for itself. The least tiles that hold a head dim.
constexpr TileConfig prefill_tiles(MmaKind mma_kind, int dim, bool score_mod) {
  if (mma_kind == MmaKind::b16) {
    if (dim <= 32)
      return {.mma_kind = mma_kind, .dim = 32, .row_warps = 4, .key_warps = 1,
              .row_tiles = 2, .keys = 64, .stages = 1, .blocks = 2,
              .score_mod = score_mod};
    if (dim <= 64)
      return {.mma_kind = mma_kind, .dim = 64, .row_warps = 4, .key_warps = 1,
              .row_tiles = 2, .keys = 64, .stages = 1, .blocks = 2,
              .score_mod = score_mod};
    if (dim <= 128)
      return {.mma_kind = mma_kind, .dim = 128, .row_warps = 4, .key_warps = 1,
              .row_tiles = 2, .keys = 32, .stages = 1, .blocks = 2,
              .score_mod = score_mod};
    return {.mma_kind = mma_kind, .dim = 256, .row_warps = 4, .key_warps = 1,
            .row_tiles = 1, .keys = 32, .stages = 1, .blocks = 2,
            .score_mod = score_mod};
  }
  const int depth = mma_kind == MmaKind::tf32 ? 64 : 16;
  if (dim <= 32)
    return {.mma_kind = mma_kind, .dim = 32, .row_warps = 4, .key_warps = 1,
            .row_tiles = 2, .keys = 32, .stages = 1, .blocks = 3,
            .sum_depth = 32, .sum_keys = 32, .sum_dims = 32,
            .score_mod = score_mod};
  if (dim <= 64)
    return {.mma_kind = mma_kind, .dim = 64, .row_warps = 4, .key_warps = 1,
            .row_tiles = 2, .keys = 32, .stages = 1, .blocks = 2,
            .sum_depth = depth, .sum_keys = 32, .sum_dims = 32,
            .score_mod = score_mod};
  if (dim <= 128)
    return {.mma_kind = mma_kind, .dim = 128, .row_warps = 4, .key_warps = 1,
            .row_tiles = 2, .keys = 32, .stages = 1, .blocks = 2,
            .sum_depth = 128, .sum_keys = 16, .sum_dims = 16,
            .score_mod = score_mod};
  return {.mma_kind = mma_kind, .dim = 256, .row_warps = 4, .key_warps = 1,
          .row_tiles = 1, .keys = 16, .stages = 1, .blocks = 2,
          .sum_depth = 128, .sum_keys = 16, .sum_dims = 16,
          .score_mod = score_mod};
}

// Few rows, whose time is that of reading keys and values: all warps have the same rows. Head dims
// up to most_decode_dim().
constexpr TileConfig decode_tiles(MmaKind mma_kind, int dim) {
  if (mma_kind == MmaKind::b16) {
    if (dim <= 64)
      return {.mma_kind = mma_kind, .dim = 64, .row_warps = 1, .key_warps = 4,
              .row_tiles = 1, .keys = 128, .stages = 1, .blocks = 4,
              .score_mod = true};
    if (dim <= 128)
      return {.mma_kind = mma_kind, .dim = 128, .row_warps = 1, .key_warps = 4,
              .row_tiles = 1, .keys = 64, .stages = 1, .blocks = 4,
              .score_mod = true};
    return {.mma_kind = mma_kind, .dim = 256, .row_warps = 1, .key_warps = 4,
            .row_tiles = 1, .keys = 64, .stages = 1, .blocks = 2,
            .score_mod = true};
  }
  if (dim <= 64)
    return {.mma_kind = mma_kind, .dim = 64, .row_warps = 1, .key_warps = 4,
            .row_tiles = 1, .keys = 64, .stages = 1, .blocks = 4,
            .sum_depth = 16, .sum_keys = 16, .sum_dims = 32,
            .score_mod = true};
  return {.mma_kind = mma_kind, .dim = 128, .row_warps = 1, .key_warps = 4,
          .row_tiles = 1, .keys = 64, .stages = 1, .blocks = 2,
          .sum_depth = 16, .sum_keys = 16, .sum_dims = 32,
          .score_mod = true};
}
constexpr int most_decode_dim(MmaKind mma_kind) { return mma_kind == MmaKind::b16 ? 256 : 128; }

// In between: two warps have the same rows. Head dims up to 128; wider ones have tiles of 64 rows
// already.
inline constexpr int most_short_dim = 128;
constexpr TileConfig short_tiles(MmaKind mma_kind, int dim) {
  if (mma_kind == MmaKind::b16) {
    if (dim <= 64)
      return {.mma_kind = mma_kind, .dim = 64, .row_warps = 2, .key_warps = 2,
              .row_tiles = 2, .keys = 64, .stages = 2, .blocks = 3,
              .score_mod = true};
    return {.mma_kind = mma_kind, .dim = 128, .row_warps = 2, .key_warps = 2,
            .row_tiles = 2, .keys = 64, .stages = 2, .blocks = 2,
            .score_mod = true};
  }
  if (dim <= 64)
    return {.mma_kind = mma_kind, .dim = 64, .row_warps = 2, .key_warps = 2,
            .row_tiles = 2, .keys = 64, .stages = 2, .blocks = 2,
            .sum_depth = 16, .sum_keys = 32, .sum_dims = 32,
            .score_mod = true};
  return {.mma_kind = mma_kind, .dim = 128, .row_warps = 2, .key_warps = 2,
          .row_tiles = 2, .keys = 32, .stages = 1, .blocks = 2,
          .sum_depth = 128, .sum_keys = 16, .sum_dims = 16,
          .score_mod = true};
}
// clang-format on

// All that there are. The device code of each is compiled in a file of the backend.
inline constexpr TileConfig all_tiles[] = {
    prefill_tiles(MmaKind::tf32x3, 32, false),
    prefill_tiles(MmaKind::tf32x3, 32, true),
    prefill_tiles(MmaKind::tf32x3, 64, false),
    prefill_tiles(MmaKind::tf32x3, 64, true),
    prefill_tiles(MmaKind::tf32x3, 128, false),
    prefill_tiles(MmaKind::tf32x3, 128, true),
    prefill_tiles(MmaKind::tf32x3, 256, false),
    prefill_tiles(MmaKind::tf32x3, 256, true),
    prefill_tiles(MmaKind::tf32, 32, false),
    prefill_tiles(MmaKind::tf32, 32, true),
    prefill_tiles(MmaKind::tf32, 64, false),
    prefill_tiles(MmaKind::tf32, 64, true),
    prefill_tiles(MmaKind::tf32, 128, false),
    prefill_tiles(MmaKind::tf32, 128, true),
    prefill_tiles(MmaKind::tf32, 256, false),
    prefill_tiles(MmaKind::tf32, 256, true),
    prefill_tiles(MmaKind::b16, 32, false),
    prefill_tiles(MmaKind::b16, 32, true),
    prefill_tiles(MmaKind::b16, 64, false),
    prefill_tiles(MmaKind::b16, 64, true),
    prefill_tiles(MmaKind::b16, 128, false),
    prefill_tiles(MmaKind::b16, 128, true),
    prefill_tiles(MmaKind::b16, 256, false),
    prefill_tiles(MmaKind::b16, 256, true),
    short_tiles(MmaKind::tf32x3, 64),
    short_tiles(MmaKind::tf32x3, 128),
    short_tiles(MmaKind::b16, 64),
    short_tiles(MmaKind::b16, 128),
    decode_tiles(MmaKind::tf32x3, 64),
    decode_tiles(MmaKind::tf32x3, 128),
    decode_tiles(MmaKind::b16, 64),
    decode_tiles(MmaKind::b16, 128),
    decode_tiles(MmaKind::b16, 256),
};

constexpr bool is_compiled(const TileConfig& tiles) {
  for (const TileConfig& one : all_tiles) {
    if (tiles == one) return true;
  }
  return false;
}

// Calls function.operator()<tiles>() with those of `all_tiles` that are equal to `tiles`.
template <int index = 0, class Function>
void with_compiled_tiles(const TileConfig& tiles, Function&& function) {
  if constexpr (index < sizeof(all_tiles) / sizeof(TileConfig)) {
    if (tiles == all_tiles[index]) return function.template operator()<all_tiles[index]>();
    with_compiled_tiles<index + 1>(tiles, function);
  }
}

}  // namespace rapt::gpu::flash_mma
