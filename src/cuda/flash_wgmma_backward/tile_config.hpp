// How an instantiation of flash_wgmma_backward is cut, and which ones there are.
#pragma once

namespace rapt::cuda::flash_wgmma_backward {

struct TileConfig {
  int dim;                 // of queries, keys and values, at most: 64 or 128
  int queries;             // of a tile that streams by: 64 or 128
  bool score_mod = false;  // a score is more than a scaled dot product

  static constexpr int warpgroups = 2;          // that compute, each on 64 keys
  static constexpr int keys = 64 * warpgroups;  // of a tile that a block owns
  static constexpr int stages = 2;              // tiles of queries, and of dout, in flight
  static constexpr int storers = 2;             // warps, and a tile of dq on its way for each
};

constexpr TileConfig with_score_mod(TileConfig config) {
  config.score_mod = true;
  return config;
}
constexpr TileConfig without_score_mod(TileConfig config) {
  config.score_mod = false;
  return config;
}

// As much as registers hold: sums of dK and dV, of (64, dim) each, beside S and dP of (64,
// queries).
inline constexpr TileConfig tiles_64 = {.dim = 64, .queries = 128},
                            tiles_128 = {.dim = 128, .queries = 64};

}  // namespace rapt::cuda::flash_wgmma_backward
