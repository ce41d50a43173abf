// How an instantiation of flash_wgmma is cut, and which ones there are.
#pragma once

namespace rapt::cuda::flash_wgmma {

struct TileConfig {
  int qk_dim, v_dim;  // of a head, at most: multiples of 16 and of 32
  int warpgroups;     // that compute, each on 64 rows of queries
  int keys;           // of a tile
  int stages = 2;     // tiles of keys, and of values, in flight
  int query_buffers =
      1;  // 2: the next queries come early, and output is staged (shared_storage.cuh)
  bool q_in_registers = false;  // queries are held in registers
  bool pingpong = true;         // warpgroups take turns at the tensor cores
  bool score_mod = false;       // a score is more than a scaled dot product
};

// Tiles of biases need room in shared memory, and scores need registers.
constexpr TileConfig with_score_mod(TileConfig config) {
  config.score_mod = true;
  config.stages = 2;
  config.q_in_registers = false;
  if (config.qk_dim == 192) config.keys = config.v_dim == 192 ? 64 : 96;
  return config;
}

// What did best on an H200, as far as shared memory and registers reach. Heads of 64 leave room for
// three warpgroups, whose 192 queries are too many for short sequences under a mask. Few queries
// are a matter of keys in flight.
// clang-format off
inline constexpr TileConfig
    tiles_32       = {.qk_dim =  32, .v_dim =  32, .warpgroups = 3, .keys = 128, .query_buffers = 2},
    tiles_64       = {.qk_dim =  64, .v_dim =  64, .warpgroups = 3, .keys = 128, .stages = 3, .query_buffers = 2},
    tiles_64_short = {.qk_dim =  64, .v_dim =  64, .warpgroups = 2, .keys = 128, .stages = 3, .query_buffers = 2, .q_in_registers = true},
    tiles_96       = {.qk_dim =  96, .v_dim =  96, .warpgroups = 2, .keys = 128, .stages = 2, .query_buffers = 2, .q_in_registers = true},
    tiles_128      = {.qk_dim = 128, .v_dim = 128, .warpgroups = 2, .keys = 128, .stages = 2, .query_buffers = 2, .q_in_registers = true},
    tiles_128_decode  = {.qk_dim = 128, .v_dim = 128, .warpgroups = 1, .keys = 128, .stages = 3, .pingpong = false},
    tiles_192_128  = {.qk_dim = 192, .v_dim = 128, .warpgroups = 2, .keys = 128},
    tiles_192      = {.qk_dim = 192, .v_dim = 192, .warpgroups = 2, .keys = 112},
    tiles_256      = {.qk_dim = 256, .v_dim = 256, .warpgroups = 2, .keys =  64};
// clang-format on

}  // namespace rapt::cuda::flash_wgmma
