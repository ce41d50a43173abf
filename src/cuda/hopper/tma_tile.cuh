// Swizzled tiles between global and shared memory: TMA moves them a panel at a time.
#pragma once

#include "src/cuda/hopper/swizzled_tile.cuh"
#include "src/cuda/ptx/tma.cuh"

namespace rapt::cuda::hopper {

// Begins to load a panel of the tile that begins at `column`; `others` are the coordinates of its
// other axes. `full` hears of each byte as it comes: it was told to expect them. One thread does.
template <class Tile, class... Coordinates>
RAPT_DEVICE void load_panel(const CUtensorMap& map, unsigned char* tile, int panel,
                            ptx::Barrier& full, int column, Coordinates... others) {
  ptx::tma_load(map, tile + panel * Tile::panel_bytes, full, column + panel * Tile::panel_columns,
                others...);
}
template <class Tile, class... Coordinates>
RAPT_DEVICE void load_tile(const CUtensorMap& map, unsigned char* tile, ptx::Barrier& full,
                           int column, Coordinates... others) {
  RAPT_UNROLL
  for (int panel = 0; panel < Tile::panels; ++panel)
    load_panel<Tile>(map, tile, panel, full, column, others...);
}

// Begins to store a panel; ptx::tma_store_wait() follows the last. One thread does.
template <class Tile, class... Coordinates>
RAPT_DEVICE void store_panel(const CUtensorMap& map, const unsigned char* tile, int panel,
                             int column, Coordinates... others) {
  ptx::tma_store(map, tile + panel * Tile::panel_bytes, column + panel * Tile::panel_columns,
                 others...);
}

}  // namespace rapt::cuda::hopper
