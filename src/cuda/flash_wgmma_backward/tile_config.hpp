// How an instantiation of flash_wgmma_backward is cut, and which ones there are.
//
// Sums of dK and dV, (keys, dim) each, stay in registers. Up to 128 dims, each warpgroup has those
// of its own 64 keys. More dims leave no room for that: each warpgroup has all the block's keys,
// which are fewer, and 64 or 128 of the dims.
//
//        dims →                                dims →
//   keys ┌────────────────┐               keys ┌───────┬───────┐
//     ↓  │  warpgroup 0   │                 ↓  │       │       │
//        ├────────────────┤                    │   0   │   1   │
//        │  warpgroup 1   │                    │       │       │
//        └────────────────┘                    └───────┴───────┘
#pragma once

#include "src/semantics/portable.hpp"

namespace rapt::cuda::flash_wgmma_backward {

struct TileConfig {
  int dim;                        // of queries, keys and values, at most
  int queries;                    // of a tile that streams by: 64 or 128
  int keys;                       // of a tile that a block owns
  int warpgroups;                 // that compute
  int query_stages, dout_stages;  // tiles in flight
  int dq_buffers;                 // parts of dq that a warpgroup may have handed over
  bool score_mod = false;         // a score is more than a scaled dot product

  static constexpr int storers = 2;  // warps, each for every other of the parts

  RAPT_HOST_DEVICE constexpr bool splits_dims() const { return dim > 128; }
  // dq's tiles are made in parts of 64 queries × 64 dims.
  RAPT_HOST_DEVICE constexpr int parts_of_tile() const { return queries / 64 * (dim / 64); }
  RAPT_HOST_DEVICE constexpr int parts_of_warpgroup() const { return parts_of_tile() / warpgroups; }
};

constexpr TileConfig with_score_mod(TileConfig config) {
  config.score_mod = true;
  return config;
}
constexpr TileConfig without_score_mod(TileConfig config) {
  config.score_mod = false;
  return config;
}

// As much as registers and shared memory hold.
inline constexpr TileConfig tiles_64 = {.dim = 64,
                                        .queries = 128,
                                        .keys = 128,
                                        .warpgroups = 2,
                                        .query_stages = 2,
                                        .dout_stages = 2,
                                        .dq_buffers = 2},
                            tiles_128 = {.dim = 128,
                                         .queries = 64,
                                         .keys = 128,
                                         .warpgroups = 2,
                                         .query_stages = 2,
                                         .dout_stages = 2,
                                         .dq_buffers = 2},
                            tiles_192 = {.dim = 192,
                                         .queries = 64,
                                         .keys = 96,
                                         .warpgroups = 3,
                                         .query_stages = 2,
                                         .dout_stages = 1,
                                         .dq_buffers = 1},
                            tiles_256 = {.dim = 256,
                                         .queries = 64,
                                         .keys = 80,
                                         .warpgroups = 2,
                                         .query_stages = 1,
                                         .dout_stages = 1,
                                         .dq_buffers = 1};

}  // namespace rapt::cuda::flash_wgmma_backward
