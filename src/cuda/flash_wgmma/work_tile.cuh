// What the warps of a block know of their work tile, from the tile scheduler by way of shared
// memory.
#pragma once

#include "src/cuda/flash_wgmma/parameters.hpp"
#include "src/cuda/target.cuh"

namespace rapt::cuda::flash_wgmma {

using semantics::Index;

// A tile of queries, and the tiles of keys it meets, `tile` down to `first_tile`.
struct alignas(16) WorkTileInfo {
  int tile, first_tile;
  int left;      // queries from the first one to the end of the sequence; 0: there is no more work
  int position;  // of the first query among the keys
  int visible_begin,
      visible_end;      // keys that this query would see if there were any number: half-open
  int head;             // or group of packed heads
  int row, outer;       // where the first query lies: its Place
  int sequence, first;  // of the first query
  int kv_len, kv_head, key_row, key_outer;  // where the keys lie
  int seen_begin, seen_end;                 // keys that some query of the sequence sees
  // Of a warpgroup: whether it sees nothing of the first tile it comes to, though others do, and
  // which tiles all its rows see whole.
  struct {
    int skipped, unmasked_begin, unmasked_end;
  } of[3];
  // Where keys are two ranges, their tiles are numbered as if there were no gap between: tiles
  // before it, and in it. 0 both: a tile's number is its place. Tiles with a score mod alone ask.
  int leading, gap;

  RAPT_DEVICE int key_tile(int number) const { return number < leading ? number : number + gap; }

  RAPT_DEVICE void set_none() { left = 0; }
};

// A row of a tile of queries: its query, counted from the tile's first, if it has one at all.
struct RowPlace {
  bool exists;
  int query;
  semantics::Place place;
  Index head;
};
RAPT_DEVICE RowPlace row_place(const Parameters& p, const WorkTileInfo& tile_info, int group,
                               int row) {
  const gpu::Divisor& packed_heads = p.schedule.packed_heads;
  const int within = packed_heads.quotient(row), query = group * p.schedule.queries + within;
  return {within < p.schedule.queries && query < tile_info.left,
          query,
          {tile_info.outer, tile_info.row + query},
          tile_info.head * packed_heads.value + row - within * packed_heads.value};
}

// Whether TMA takes the output of a warpgroup. Where a packed sequence ends within its
// rows, it would write behind that end, where another may begin.
RAPT_DEVICE bool stores_by_tma(const Parameters& p, const WorkTileInfo& tile_info, int group) {
  return p.output_by_tma &&
         (!p.call.q_starts || (group + 1) * p.schedule.queries <= tile_info.left);
}

}  // namespace rapt::cuda::flash_wgmma
