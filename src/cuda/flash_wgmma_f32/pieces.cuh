// Tiles of f32 from global to shared memory, in pieces of 16 bytes that each thread loads for
// itself.
//
// Products of f32 sum along the rows of both operands, so values have to be transposed on the way:
// a thread loads four keys × four columns to where nobody else looks, and turns them into four rows
// of four keys. It takes the even or the odd ones of eight keys, as a thread's weights lie: see
// output_mma.cuh.
//
//   columns  c c c c                          keys of a panel   0 2 4 6   1 3 5 7   8 10 …
//   key 0    ▪ ▪ ▪ ▪                          column 0          ▪ ▪ ▪ ▪
//   key 2    ▪ ▪ ▪ ▪    a thread's four  ──▶  column 1          ▪ ▪ ▪ ▪
//   key 4    ▪ ▪ ▪ ▪                          column 2          ▪ ▪ ▪ ▪
//   key 6    ▪ ▪ ▪ ▪                          column 3          ▪ ▪ ▪ ▪
#pragma once

#include "src/cuda/hopper/swizzled_tile.cuh"
#include "src/gpu/flash_mma/loads.hpp"

namespace rapt::cuda::flash_wgmma_f32 {

namespace flash_mma = gpu::flash_mma;
using gpu::Index;

template <int rows, int columns>
using Swizzled = hopper::SwizzledTile<4, rows, columns>;
inline constexpr int panel_columns = 32;

// Which pieces of 16 bytes a thread has of a tile: the i-th one lies row_step(i) and column_step(i)
// from the first, and at place(i) in shared memory. As rows lie, to a SwizzledTile:
template <class Tile, int threads>
struct PiecesOfRows {
  static constexpr int of_row = Tile::columns / 4, rows_at_once = threads / of_row;
  static constexpr int count = Tile::rows / rows_at_once;
  static_assert(threads % of_row == 0 && Tile::rows % rows_at_once == 0);
  static_assert((rows_at_once & (rows_at_once - 1)) == 0);  // as below() needs it

  RAPT_DEVICE static int row() { return Target::thread() % threads / of_row; }
  RAPT_DEVICE static int column() { return Target::thread() % of_row * 4; }
  RAPT_DEVICE static constexpr int row_step(int i) { return i * rows_at_once; }
  RAPT_DEVICE static constexpr int column_step(int) { return 0; }
  RAPT_DEVICE static uint32_t place(int i) {
    return Tile::below(Tile::at(row(), column()), row_step(i));
  }
};
// In fours, to be transposed: a warp has 16 columns of 32 keys, a thread of it four columns of four
// of eight keys, the even or the odd ones.
template <int keys, int columns, int threads>
struct PiecesOfFours {
  static constexpr int warps = threads / 32, panels = keys / panel_columns;
  static constexpr int count = keys * columns / 4 / threads;
  static constexpr int bytes = keys * columns * 4;
  static_assert(warps % panels == 0 && columns / 16 % (warps / panels) == 0);

  RAPT_DEVICE static int panel() { return Target::wave() % panels; }
  // Among the eight fours of a panel.
  RAPT_DEVICE static int four() { return Target::lane() % 8; }
  RAPT_DEVICE static int row() { return panel() * panel_columns + four() / 2 * 8 + four() % 2; }
  RAPT_DEVICE static int column() {
    return Target::wave() % warps / panels * 16 + Target::lane() / 8 * 4;
  }
  RAPT_DEVICE static constexpr int row_step(int i) { return i % 4 * 2; }
  RAPT_DEVICE static constexpr int column_step(int i) { return i / 4 * (warps / panels * 16); }
  RAPT_DEVICE static uint32_t place(int i) {
    return (i * threads + Target::thread() % threads) * 16;
  }
};

// Begins to load the thread's pieces, as flash_mma::load_rows does; zeros from element `dim` on.
// row_at(row) is where a row begins, null for a row of zeros; `somewhere` is any address. Rows that
// are not read `whole`, 16 bytes at a time, are there when this returns. Those that lie `in_steps`
// of `stride` are whole, and all exist.
template <class Pieces, class RowAt>
RAPT_DEVICE void load_pieces(uint32_t to, Index dim, bool whole, bool in_steps, Index stride,
                             const void* somewhere, RowAt row_at) {
  const int row = Pieces::row(), column = Pieces::column();
  if (in_steps) {
    const float* from = row_at(row) + column;
    RAPT_UNROLL
    for (int i = 0; i < Pieces::count; ++i)
      ptx::cp_async(to + Pieces::place(i),
                    from + Pieces::row_step(i) * stride + Pieces::column_step(i),
                    column + Pieces::column_step(i) < dim);
    return;
  }
  const auto row_of = [&](int i) {
    return column + Pieces::column_step(i) < dim ? row_at(row + Pieces::row_step(i)) : nullptr;
  };
  if (whole) {
    RAPT_UNROLL_BY_4  // pages are looked up together
        for (int i = 0; i < Pieces::count; ++i) {
      const float* from = row_of(i);
      ptx::cp_async(to + Pieces::place(i),
                    from ? from + column + Pieces::column_step(i) : somewhere, from);
    }
    return;
  }
  RAPT_NO_UNROLL
  for (int i = 0; i < Pieces::count; ++i) {
    gpu::RawRow<float, 4> raw = {};
    if (const float* from = row_of(i))
      raw = gpu::load_raw_row<Target, 4>(from, column + Pieces::column_step(i), dim, false);
    ptx::store_shared(to + Pieces::place(i), raw.access[0].at);
  }
}

// The same of `keys` rows, those of the numbers from `first` on in a warp's tile; behind its last
// key they are zeros.
template <class Rows, class Pieces, int keys>
RAPT_DEVICE void load_keys(uint32_t to, const flash_mma::KeyRows<float>& from, Index dim,
                           bool whole, const typename Rows::WarpTile& tile, int first,
                           const void* somewhere) {
  const bool in_steps = whole && !from.paged() && first + keys <= tile.keys.end &&
                        Rows::adjacent(tile, first, first + keys);
  load_pieces<Pieces>(to, dim, whole, in_steps, from.stride(), somewhere,
                      [&](int row) -> const float* {
                        if (first + row >= tile.keys.end) return nullptr;
                        return from.at(Rows::key_of(tile, first + row));
                      });
}

}  // namespace rapt::cuda::flash_wgmma_f32
