// Tiles in shared memory as TMA leaves them with a swizzle of 128 bytes, and as wgmma reads them
// (ptx::MatrixDescriptor). A tile of (rows, columns) lies in panels, each with 128 bytes of every
// row; the columns of the last panel may be fewer:
//
//   panel 0                      panel 1
//   row 0   p0 p1 p2 p3 … p7     p8 p9 …       pieces of 16 bytes
//   row 1   p1 p0 p3 p2 … p6                   piece i of row r lies where piece i ^ r % 8 would,
//   row 2   p2 p3 p0 p1 … p5                   so that a column of pieces meets all banks
//    ⋮
//   row 8   p0 p1 p2 p3 … p7
#pragma once

#include "src/cuda/ptx/shared.cuh"
#include "src/cuda/target.cuh"

namespace rapt::cuda::hopper {

inline constexpr int panel_row_bytes = 128;

template <int element_bytes, int rows_, int columns_>
struct SwizzledTile {
  static constexpr int rows = rows_, columns = columns_;
  static constexpr int panel_columns = panel_row_bytes / element_bytes;
  static constexpr int panels = (columns + panel_columns - 1) / panel_columns;
  static constexpr int panel_bytes = rows * panel_row_bytes, bytes = panels * panel_bytes;
  static constexpr int piece_columns = 16 / element_bytes;

  // Byte offsets. Of a piece: `column` is its first.
  RAPT_DEVICE static uint32_t at(int row, int column) {
    return column / panel_columns * panel_bytes + row * panel_row_bytes +
           (column % panel_columns / piece_columns ^ row % 8) * 16;
  }
  // So many rows below `at`, if row % 8 and rows % 8 have no bits in common.
  RAPT_DEVICE static uint32_t below(uint32_t at, int rows) {
    return (at ^ rows % 8 * 16) + rows * panel_row_bytes;
  }
  // That a MatrixDescriptor moves by, from the tile's first column to another along the rows.
  RAPT_DEVICE static constexpr int column_offset(int column) {
    return column / panel_columns * panel_bytes + column % panel_columns * element_bytes;
  }
};

// Where the lane's row of 16 bytes lies in a warp's fragment of 16 rows × 32 bytes, from `column`
// of the tile on, for ldmatrix and stmatrix: matrices of 8 rows × 16 bytes, for which lanes 8 i … 8
// i + 7 name the rows of the i-th; the second lies below the first, the next two beside them.
// `rows` is where the warp's first row begins, one of a multiple of 8.
template <class Tile>
RAPT_DEVICE uint32_t fragment_address(const unsigned char* rows, int column) {
  const int lane = Target::lane(), row = lane % 16;
  const int piece = column % Tile::panel_columns / Tile::piece_columns + lane / 16;
  return ptx::shared_address(rows) +
         (column / Tile::panel_columns * Tile::rows + row) * panel_row_bytes +
         (piece ^ row % 8) * 16;
}

}  // namespace rapt::cuda::hopper
