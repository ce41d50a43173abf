// Tiles from global to shared memory.
#pragma once

#include "src/gpu/flash_mma/fragments.hpp"
#include "src/gpu/flash_mma/parameters.hpp"
#include "src/gpu/key_rows.hpp"
#include "src/gpu/rows.hpp"

namespace rapt::gpu::flash_mma {

template <class Element>
using KeyRows = gpu::KeyRows<Element, Divisor>;

// Which 16 bytes of a tile a thread loads: a column of some rows.
template <class Target, class Element, int columns, int threads>
struct Accesses {
  using Tile = TileLayout<Element, columns>;
  static constexpr int width = elements_per_access<Element>, of_row = columns / width;
  static constexpr int rows_at_once = threads / of_row;
  static_assert(threads % of_row == 0);

  RAPT_DEVICE static int row() { return Target::thread() / of_row; }
  RAPT_DEVICE static int column() { return Target::thread() % of_row * width; }
  RAPT_DEVICE static uint32_t first(uint32_t tile) {
    return tile + row() * Tile::row_bytes + column() * Tile::size;
  }
};

// Calls change(address) for all that the thread loads of `rows` rows.
template <class Target, class Element, int rows, int columns, int threads, class Change>
RAPT_DEVICE void for_each_access(uint32_t tile, Change change) {
  using Mine = Accesses<Target, Element, columns, threads>;
  RAPT_NO_UNROLL
  for (int i = 0; i < rows; i += Mine::rows_at_once)
    change(Mine::first(tile) + i * Mine::Tile::row_bytes);
}

// Begins to load `rows` rows; zeros from element `dim` on. row_at(row) is where a row begins, null
// for a row of zeros; `somewhere` is any address. Rows that are not read `whole`, 16 bytes at a
// time, are there when this returns. Those that lie `in_steps` of `stride` are whole, and all
// exist.
template <class Target, class Element, int rows, int columns, int threads, class RowAt>
RAPT_DEVICE void load_rows(uint32_t tile, Index dim, bool whole, bool in_steps, Index stride,
                           const void* somewhere, RowAt row_at) {
  using Mine = Accesses<Target, Element, columns, threads>;
  using Tile = typename Mine::Tile;
  constexpr int width = Mine::width, rows_at_once = Mine::rows_at_once;
  static_assert(rows % rows_at_once == 0);
  const int row = Mine::row(), column = Mine::column();
  const uint32_t to = Mine::first(tile);
  if (in_steps) {
    const bool wanted = column < dim;
    const Element* from = row_at(row) + column;
    RAPT_UNROLL
    for (int i = 0; i < rows; i += rows_at_once) {
      Target::cp_async(to + i * Tile::row_bytes, from, wanted);
      from += rows_at_once * stride;
    }
  } else if (whole) {
    RAPT_NO_UNROLL
    for (int i = 0; i < rows; i += rows_at_once) {
      const Element* from = column < dim ? row_at(row + i) : nullptr;
      Target::cp_async(to + i * Tile::row_bytes, from ? from + column : somewhere, from);
    }
  } else {
    RAPT_NO_UNROLL
    for (int i = 0; i < rows; i += rows_at_once) {
      RawRow<Element, width> raw = {};
      const Element* from = row_at(row + i);
      if (from) raw = load_raw_row<Target, width>(from, column, dim, false);
      Target::store_shared(to + i * Tile::row_bytes, raw.access[0].at);
    }
  }
}

}  // namespace rapt::gpu::flash_mma
