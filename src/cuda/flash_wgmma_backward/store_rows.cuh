// From sums in registers to rows of dk and dv in memory.
#pragma once

#include "src/cuda/flash_wgmma_backward/tile_config.hpp"
#include "src/cuda/ptx/pack.cuh"
#include "src/cuda/target.cuh"

namespace rapt::cuda::flash_wgmma_backward {

using semantics::Index;

// The thread's first row (half 0) or the one 8 further down, times `factor`: of every eight columns
// it has two; after an exchange with its neighbour, of every sixteen four. All lanes take part;
// rows that do not exist are not written, and those that are not in use become zeros, whatever was
// summed. `at` is where the row begins.
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
  const bool odd = lane % 2 != 0;
  const int column = lane % 4 / 2 * 4 + (odd ? 8 : 0);
  const int room = static_cast<int>(dims) - column;
  Element* const to = static_cast<Element*>(data) + at + column;
  RAPT_UNROLL
  for (int j = 0; j < n / 2; ++j) {
    uint32_t words[2];
    RAPT_UNROLL
    for (int i = 0; i < 2; ++i)
      words[i] = ptx::pack_two<Element>(sum(2 * j + i, 2 * half), sum(2 * j + i, 2 * half + 1));
    const uint32_t got = Target::shuffle_xor(odd ? words[0] : words[1], 1);
    const uint2 four = odd ? make_uint2(got, words[1]) : make_uint2(words[0], got);
    if (!exists) continue;
    if (16 * j + 4 <= room) {
      *reinterpret_cast<uint2*>(to + 16 * j) = four;
      continue;
    }
    const uint32_t parts[2] = {four.x, four.y};
    RAPT_UNROLL
    for (int i = 0; i < 3; ++i)
      if (16 * j + i < room)
        to[16 * j + i].bits = static_cast<uint16_t>(parts[i / 2] >> i % 2 * 16);
  }
}

}  // namespace rapt::cuda::flash_wgmma_backward
