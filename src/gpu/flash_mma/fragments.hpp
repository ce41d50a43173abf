// Where the fragments of a warp lie: in shared memory, and in registers after a product.
#pragma once

#include "src/gpu/flash_mma/tile_config.hpp"
#include "src/gpu/target.hpp"

namespace rapt::gpu::flash_mma {

// A tile in shared memory, rows of elements as they are. A row is padded by 16 bytes, so that 8
// rows one after another, or every other one, lie in different banks.
template <class Element, int dim>
struct TileLayout {
  static constexpr int size = sizeof(Element);
  static constexpr int stride = dim + 16 / size;  // in elements
  static constexpr int row_bytes = stride * size;
};

// A lane's part of a result with so many columns, of all row tiles of a warp. Rows 2 m and 2 m + 1
// are lane / 4 and lane / 4 + 8 of row tile m.
template <TileConfig config, int width>
struct RowsOf {
  static constexpr int rows = 2 * config.row_tiles, columns = width / 4;
  float at[rows][columns];
};

// The row of a warp that the lane has in at[i].
template <class Target>
RAPT_DEVICE int row_of_lane(int i) {
  return i / 2 * 16 + i % 2 * 8 + Target::lane() / 4;
}
// The column that it has in at[][j].
template <class Target>
RAPT_DEVICE int column_of_lane(int j) {
  return j / 2 * 8 + Target::lane() % 4 * 2 + j % 2;
}

// What a lane adds to a tile's address for ldmatrix. A step is 32 bytes along the rows.
// 16 rows as the left operand:
template <class Target, class Tile>
RAPT_DEVICE uint32_t left_operand(int first_row, int step) {
  const int lane = Target::lane();
  return (first_row + lane % 16) * Tile::row_bytes + lane / 16 * 16 + step * 32;
}
// 16 rows as the columns of two right operands:
template <class Target, class Tile>
RAPT_DEVICE uint32_t right_operand(int first_row, int step) {
  const int lane = Target::lane();
  return (first_row + lane / 16 * 8 + lane % 8) * Tile::row_bytes + lane / 8 % 2 * 16 + step * 32;
}
// 16 rows as the rows of two right operands of 16-bit elements, 8 columns each:
template <class Target, class Tile>
RAPT_DEVICE uint32_t rows_of_values(int first_row, int pair) {
  return left_operand<Target, Tile>(first_row, pair);
}

}  // namespace rapt::gpu::flash_mma
