// From sums in registers to rows of dk and dv in memory.
#pragma once

#include "src/cuda/flash_wgmma_backward/tile_config.hpp"
#include "src/cuda/ptx/ldmatrix.cuh"
#include "src/cuda/ptx/pack.cuh"
#include "src/cuda/target.cuh"

namespace rapt::cuda::flash_wgmma_backward {

using semantics::Index;

// Sixteen columns of a row that four lanes have: each two of the first eight, and two of the
// others. After an exchange with its neighbour a lane has four side by side. All lanes take part.
// The row has room for so many.
template <class Element>
RAPT_DEVICE void store_sixteen(Element* row, int room, bool exists, const uint32_t (&words)[2]) {
  const int lane = Target::lane();
  const bool odd = lane % 2 != 0;
  const int column = lane % 4 / 2 * 4 + (odd ? 8 : 0);
  const uint32_t got = Target::shuffle_xor(odd ? words[0] : words[1], 1);
  const uint2 four = odd ? make_uint2(got, words[1]) : make_uint2(words[0], got);
  if (!exists) return;
  if (column + 4 <= room) {
    *reinterpret_cast<uint2*>(row + column) = four;
    return;
  }
  const uint32_t parts[2] = {four.x, four.y};
  RAPT_UNROLL
  for (int i = 0; i < 3; ++i)
    if (column + i < room) row[column + i].bits = static_cast<uint16_t>(parts[i / 2] >> i % 2 * 16);
}

// The thread's first row (half 0) or the one 8 further down, times `factor`: of every eight columns
// it has two. All lanes take part; rows that do not exist are not written, and those that are not
// in use become zeros, whatever was summed. `at` is where the row begins.
template <class Element, int half, int n>
RAPT_DEVICE void store_row(void* data, bool is_f32, Index at, Index dims, bool exists, bool in_use,
                           float factor, const float (&sums)[n][4]) {
  const int lane = Target::lane();
  const auto sum = [&](int j, int i) { return in_use ? sums[j][i] * factor : 0; };
  if (is_f32) {
    float* const to = static_cast<float*>(data) + at + lane % 4 * 2;
    const int room = static_cast<int>(dims) - lane % 4 * 2;
    RAPT_UNROLL
    for (int j = 0; j < n; ++j) {
      if (exists && 8 * j < room) to[8 * j] = sum(j, 2 * half);
      if (exists && 8 * j + 1 < room) to[8 * j + 1] = sum(j, 2 * half + 1);
    }
    return;
  }
  Element* const to = static_cast<Element*>(data) + at;
  RAPT_UNROLL
  for (int j = 0; j < n / 2; ++j) {
    uint32_t words[2];
    RAPT_UNROLL
    for (int i = 0; i < 2; ++i)
      words[i] = ptx::pack_two<Element>(sum(2 * j + i, 2 * half), sum(2 * j + i, 2 * half + 1));
    store_sixteen(to + 16 * j, static_cast<int>(dims) - 16 * j, exists, words);
  }
}

// A row of dk or dv: where it begins, and whether it exists and is in use.
struct StoredRow {
  Index at;
  bool exists, in_use;
};

// From a warpgroup's sums (64 dims, n · 8 rows), which lie the other way round, to rows of dims
// from `first` on. `row_of` says of a row where it goes.
template <class Element, int n, class RowOf>
RAPT_DEVICE void store_transposed(void* data, bool is_f32, int first, Index dims, float factor,
                                  const float (&sums)[n][4], RowOf row_of) {
  const int lane = Target::lane(), dim = first + Target::wave() % 4 * 16;  // the warp's first
  RAPT_UNROLL
  for (int j = 0; j < n; ++j) {
    if (is_f32) {
      RAPT_UNROLL
      for (int i = 0; i < 4; ++i) {
        const StoredRow row = row_of(8 * j + lane % 4 * 2 + i % 2);
        const int at = dim + lane / 4 + i / 2 * 8;
        if (row.exists && at < dims)
          static_cast<float*>(data)[row.at + at] = row.in_use ? sums[j][i] * factor : 0;
      }
      continue;
    }
    const StoredRow row = row_of(8 * j + lane / 4);
    __syncwarp();  // to transpose takes all lanes together, wherever the last rows left them
    uint32_t words[2];
    RAPT_UNROLL
    for (int half = 0; half < 2; ++half) {
      words[half] = ptx::transpose_matrix(
          ptx::pack_two<Element>(sums[j][2 * half] * factor, sums[j][2 * half + 1] * factor));
      if (!row.in_use) words[half] = 0;
    }
    store_sixteen(static_cast<Element*>(data) + row.at + dim, static_cast<int>(dims) - dim,
                  row.exists, words);
  }
}

}  // namespace rapt::cuda::flash_wgmma_backward
