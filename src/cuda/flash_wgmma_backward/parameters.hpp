// What the launches of flash_wgmma_backward are given.
#pragma once

#include <cuda.h>

#include "src/cuda/flash_wgmma_backward/tile_config.hpp"
#include "src/gpu/backward.hpp"
#include "src/gpu/divisor.hpp"

namespace rapt::cuda::flash_wgmma_backward {

inline constexpr int most_members = 64;  // blocks of a team

// Who does what (schedule.cuh).
struct Schedule {
  int members;                 // blocks of a team
  int laps;                    // there and back, that a team takes for the key tiles of a pair
  int teams;                   // that go through (sequence, kv head) pairs together
  int pairs;                   // of sequences and kv heads
  int query_tiles, key_tiles;  // of the longest sequence
  gpu::Divisor kv_heads;
};

// Numbers of rows for the kernel's own use, of whole tiles of queries: those of a packed sequence
// begin at the tile first_tile() says. All in the workspace.
struct RowArrays {
  float* exponents;  // (head, row): lse · log2(e); +∞ for a row that does not exist or sees nothing
  float* deltas;     // (head, row): D
  float* dq;         // (head, tile, …): sums of dS K, as the storer has them (storer.cuh)
  uint32_t* counters;  // (sequence, head, tile of it, part): blocks that have added to dq's tile
  int tiles;           // of all rows of a head
};

struct Parameters {
  gpu::BackwardParameters common;
  Schedule schedule;
  RowArrays rows;
  float scale;  // from dot products to exponents of 2
  CUtensorMap queries, keys, values, dout;
};

// Of dq's tile, a counter for each of the parts that a warpgroup has of it.
template <TileConfig config>
RAPT_HOST_DEVICE uint32_t* counters_of(const Parameters& p, gpu::Index sequence, gpu::Index head,
                                       gpu::Index tile) {
  const gpu::Index number = (sequence * p.common.call.heads + head) * p.schedule.query_tiles + tile;
  return p.rows.counters + number * config.parts_of_warpgroup();
}

// Tiles of queries that a sequence begins at. Packed ones have a tile more each than their rows
// fill, so that none shares a tile with another.
RAPT_HOST_DEVICE int first_tile(const semantics::Call& call, const semantics::Sequence& sequence,
                                int tile_queries) {
  using semantics::Index;
  const Index tile = call.q_starts
                         ? sequence.q_begin / tile_queries + sequence.index
                         : sequence.index * semantics::divided_up(call.q_len, Index{tile_queries});
  return static_cast<int>(tile);
}

}  // namespace rapt::cuda::flash_wgmma_backward
