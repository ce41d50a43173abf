// Where a warpgroup is on its way: in which of its work tiles, and at which tile of keys.
//
// Keys are met from the last tile down to the first. Every `tiles_of_span` tiles sums are promoted;
// spans are counted by keys, not by steps, so that bits do not depend on what else the block has
// done:
//
//   tile     first_tile … 31 │ 32 … 63 │ 64 … started_at
//                        ◀── span_end ◀── span_end ◀── the way
#pragma once

#include "src/cuda/flash_wgmma/shared_storage.cuh"
#include "src/cuda/flash_wgmma/softmax.cuh"

namespace rapt::cuda::flash_wgmma {

template <TileConfig config>
struct Position {
  int group;                                 // the warpgroup
  int work_tile = -1, step = 0;              // counted from 0 on, which tells their buffers
  int tile = 0, first_tile = 0;              // of keys: where the work tile is, and where it ends
  int span_end = 0;                          // the next tile that ends a span, or the work tile
  int skipped = 0;                           // tiles, 0 or 1, before the work tile's first step
  int unmasked_begin = 0, unmasked_end = 0;  // tiles that all of the warpgroup's rows see whole

  // A number that is the same in all lanes, in a way that lets the compiler know.
  RAPT_DEVICE static int uniform(int number) {
    return static_cast<int>(__reduce_or_sync(Target::all_lanes, static_cast<unsigned>(number)));
  }
  // The thread's first row in the warpgroup; the other one is 8 further down.
  RAPT_DEVICE static int row() { return Target::wave() % 4 * 16 + Target::lane() / 4; }
  // Of the thread's first column, in the key_tile-th tile.
  RAPT_DEVICE static int first_key(int key_tile) {
    return key_tile * config.keys + Target::lane() % 4 * 2;
  }

  RAPT_DEVICE void set_span_end() {
    const int end = tile / tiles_of_span * tiles_of_span;
    span_end = end > first_tile ? end : first_tile;
  }
  RAPT_DEVICE void begin_span() {
    --tile;
    set_span_end();
  }
  RAPT_DEVICE int started_at(const WorkTileInfo& info) const {
    return info.tile - (skips_tiles<config> ? info.of[group].skipped : 0);
  }
  // Whether a span of output ended in a work tile's tiles before `tile`, its first step's left out.
  RAPT_DEVICE bool has_promoted_output(const WorkTileInfo& info, int tile) const {
    return (started_at(info) - 1) / tiles_of_output_span > tile / tiles_of_output_span;
  }
  RAPT_DEVICE bool has_promoted_output(const WorkTileInfo& info) const {
    return has_promoted_output(info, info.first_tile);
  }
};

}  // namespace rapt::cuda::flash_wgmma
