// The tiles that flash_mma is compiled for.
#pragma once

namespace rapt::cuda::flash_mma {

enum class Products {
  tf32x3,   // f32 in three products of TF32 each, with the accuracy of f32
  tf32,     // f32 rounded to TF32
  sixteen,  // f16 or bf16
};

struct TileConfig {
  Products products;
  int dim;        // of queries, keys and values, at most; a multiple of 32
  int warps;      // of a block
  int row_tiles;  // of 16 queries, of a warp
  int keys;       // of a tile; a multiple of 16
  int blocks;     // that share a multiprocessor
  // For f32, to have registers enough. First product: small and large products in one pass over the
  // dims, with sums of their own, or in two. Second product: keys and dims whose sums are made at
  // once.
  int passes, sum_keys, sum_dims;
  bool scoring = false;  // scores are more than scaled dot products

  constexpr int rows() const { return warps * row_tiles * 16; }
};

constexpr TileConfig with_scoring(TileConfig config) {
  config.scoring = true;
  return config;
}

// The least tiles that hold a head dim.
constexpr TileConfig tiles_for(Products products, int dim) {
  if (products == Products::sixteen) {
    if (dim <= 32) return {products, 32, 4, 2, 64, 2, 0, 0, 0};
    if (dim <= 64) return {products, 64, 4, 2, 64, 2, 0, 0, 0};
    if (dim <= 128) return {products, 128, 4, 2, 32, 2, 0, 0, 0};
    return {products, 256, 4, 1, 32, 2, 0, 0, 0};
  }
  if (dim <= 32) return {products, 32, 4, 2, 32, 3, 1, 32, 32};
  if (dim <= 64) return {products, 64, 4, 2, 32, 2, 1, 32, 32};
  if (dim <= 128) return {products, 128, 4, 2, 32, 2, 2, 16, 16};
  return {products, 256, 4, 1, 16, 2, 2, 16, 16};
}

}  // namespace rapt::cuda::flash_mma
