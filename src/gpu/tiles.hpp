// Tiles in shared memory, as f32, and products of them in registers.
//
// A tile's rows are padded by one 16-byte access, so that the same column of neighbouring rows lies
// in different banks. The threads of a block form a grid of row groups × 8 columns. A thread works
// on rows group + i · groups and on columns that are 8 apart (of keys) or in fours (of dims): 32
// lanes then read 4 rows of one operand and 8 of the other, neighbours all of them, and share the
// rest.
#pragma once

#include "src/gpu/rows.hpp"

namespace rapt::gpu {

inline constexpr int tile_padding = 4;
template <int columns>
inline constexpr int tile_stride = columns + tile_padding;
template <int rows, int columns>
inline constexpr int tile_bytes = rows* tile_stride<columns> * 4;

// A thread's part of a tile on its way from global to shared memory: pieces of 16 bytes, some of
// them in registers between fetch() and store_tile(), while other work goes on.
template <class Target, class Element, int rows, int columns, int threads>
class TilePieces {
 public:
  static constexpr int width = elements_per_access<Element>;
  static constexpr int of_row = columns / width, pieces = rows * of_row;
  static constexpr int each = (pieces + threads - 1) / threads;
  static constexpr int most = 16 / width;  // in registers at a time
  static constexpr int at_once = each < most ? each : most;
  static_assert(columns % width == 0 && each % at_once == 0);

  // Points at the rows of pieces first … first + at_once − 1 of the thread. row_at(row) is where a
  // row begins, null for a row of zeros.
  template <class RowAt>
  RAPT_DEVICE void aim(int first, RowAt row_at) {
    RAPT_UNROLL
    for (int i = 0; i < at_once; ++i) {
      const int piece = (first + i) * threads + Target::thread();
      rows_[i] = piece < pieces ? row_at(piece / of_row) : nullptr;
    }
  }

  // Columns first_column … of those rows; elements from `dim` on are zeros.
  RAPT_DEVICE void fetch(int first, Index first_column, Index dim, bool whole) {
    RAPT_UNROLL
    for (int i = 0; i < at_once; ++i) {
      const int piece = (first + i) * threads + Target::thread();
      const Index column = first_column + piece % of_row * width;
      loaded_[i] = {};
      if (!rows_[i] || column >= dim) continue;
      if (whole) {
        loaded_[i] =
            Target::load(reinterpret_cast<const Vector<Element, width>*>(rows_[i] + column));
      } else {
        RAPT_UNROLL
        for (int j = 0; j < width; ++j)
          if (column + j < dim) loaded_[i].at[j] = Target::load(rows_[i] + column + j);
      }
    }
  }

  template <class Tile>
  RAPT_DEVICE void store_tile(int first, Tile tile) const {
    RAPT_UNROLL
    for (int i = 0; i < at_once; ++i) {
      const int piece = (first + i) * threads + Target::thread();
      if (piece >= pieces) continue;
      const int to = piece / of_row * tile_stride<columns> + piece % of_row * width;
      RAPT_UNROLL
      for (int j = 0; j < width; j += 4) {
        Vector<float, 4> four;
        RAPT_UNROLL
        for (int x = 0; x < 4; ++x) four.at[x] = Target::to_float(loaded_[i].at[j + x]);
        tile.store_vector(to + j, four);
      }
    }
  }

 private:
  const Element* rows_[at_once];
  Vector<Element, width> loaded_[at_once];
};

// A whole tile at once.
template <class Target, class Element, int rows, int columns, int threads, class Tile, class RowAt>
RAPT_DEVICE void load_tile(Tile tile, Index dim, bool whole, RowAt row_at) {
  TilePieces<Target, Element, rows, columns, threads> pieces;
  for (int first = 0; first < pieces.each; first += pieces.at_once) {
    pieces.aim(first, row_at);
    pieces.fetch(first, 0, dim, whole);
    pieces.store_tile(first, tile);
  }
}

// Where a thread stands in the grid of its block.
inline constexpr int thread_columns = 8;
template <class Target, int row_groups>
struct ThreadPlace {
  static constexpr int columns = thread_columns;
  RAPT_DEVICE static int row(int i) { return Target::thread() / columns + i * row_groups; }
  RAPT_DEVICE static int column() { return Target::thread() % columns; }
};

// sums[i][j] += a row row(i) · b row (column + 8 j), over products_of_sum columns of both from
// `first` on. No more products are summed one after another: roundings of equal ones all go the
// same way (sums.hpp).
inline constexpr int products_of_sum = 32;
template <class Place, int m, int n, class Tile>
RAPT_DEVICE void add_products(Tile a, int a_stride, Tile b, int b_stride, int first,
                              float (&sums)[m][n]) {
  RAPT_NO_UNROLL
  for (int k = first; k < first + products_of_sum; k += 4) {
    Vector<float, 4> left[m], right[n];
    RAPT_UNROLL
    for (int i = 0; i < m; ++i) left[i] = a.template load_vector<4>(Place::row(i) * a_stride + k);
    RAPT_UNROLL
    for (int j = 0; j < n; ++j)
      right[j] = b.template load_vector<4>((Place::column() + Place::columns * j) * b_stride + k);
    RAPT_UNROLL
    for (int x = 0; x < 4; ++x) {
      RAPT_UNROLL
      for (int i = 0; i < m; ++i) {
        RAPT_UNROLL
        for (int j = 0; j < n; ++j) sums[i][j] += left[i].at[x] * right[j].at[x];
      }
    }
  }
}
// Over `depth` columns, so many at a time.
template <class Place, int m, int n, int depth, class Tile>
RAPT_DEVICE void multiply_by_rows(Tile a, int a_stride, Tile b, int b_stride, float (&sums)[m][n]) {
  static_assert(depth % products_of_sum == 0);
  RAPT_NO_UNROLL
  for (int first = 0; first < depth; first += products_of_sum) {
    float parts[m][n] = {};
    add_products<Place>(a, a_stride, b, b_stride, first, parts);
    RAPT_UNROLL
    for (int i = 0; i < m; ++i) {
      RAPT_UNROLL
      for (int j = 0; j < n; ++j) sums[i][j] += parts[i][j];
    }
  }
}

// sums[i][4 g + y] += Σ over `depth` rows k of b: a (row(i), k) · b (k, 32 g + 4 column + y).
template <class Place, int m, int n, int depth, class Tile>
RAPT_DEVICE void multiply_by_columns(Tile a, int a_stride, Tile b, int b_stride,
                                     float (&sums)[m][n]) {
  static_assert(n % 4 == 0);
  RAPT_NO_UNROLL
  for (int k = 0; k < depth; k += 4) {
    Vector<float, 4> left[m];
    RAPT_UNROLL
    for (int i = 0; i < m; ++i) left[i] = a.template load_vector<4>(Place::row(i) * a_stride + k);
    RAPT_UNROLL
    for (int x = 0; x < 4; ++x) {
      RAPT_UNROLL
      for (int g = 0; g < n / 4; ++g) {
        const Vector<float, 4> right = b.template load_vector<4>(
            (k + x) * b_stride + (g * Place::columns + Place::column()) * 4);
        RAPT_UNROLL
        for (int i = 0; i < m; ++i) {
          RAPT_UNROLL
          for (int y = 0; y < 4; ++y) sums[i][g * 4 + y] += left[i].at[x] * right.at[y];
        }
      }
    }
  }
}

}  // namespace rapt::gpu
