// How flash_wgmma's persistent blocks go through the queries: work tiles, and their order.
#pragma once

#include "src/cuda/flash_wgmma/parameters.hpp"
#include "src/cuda/flash_wgmma/tile_config.hpp"
#include "src/portable/common.hpp"

namespace rapt::cuda::flash_wgmma {

using gpu::Index;

struct WorkTiles {
  int packed_heads;
  Index queries, tiles, heads, pairs;  // queries of a warpgroup; tiles of a head; heads, in all too
  Index varlen_tiles;                  // for the tiles of a head in all sequences: see Schedule
  bool in_one_row() const {
    return 2 * double(varlen_tiles * heads) < double(tiles) * double(pairs);
  }
  double count() const {
    return in_one_row() ? double(varlen_tiles * heads) : double(tiles) * double(pairs);
  }
};
WorkTiles work_tiles_of(const Problem& problem, const TileConfig& tiles);

Schedule schedule_of(const Problem& problem, const TileConfig& tiles, const Device& device);

// Whether blocks ask a counter for their next work tile: where some take longer than others.
inline bool has_tile_counter(const Problem& problem) { return gpu::is_uneven(problem); }

}  // namespace rapt::cuda::flash_wgmma
