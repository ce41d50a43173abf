// Softmax of the two rows of scores that a thread shares with the three other lanes of its quad.
//
// Weights are 2^(exponent − reference). The reference need not be the largest exponent so far: any
// number near it gives the same quotient of sums. So it moves only when an exponent exceeds it by
// more than `most`, which after the first tile of a row is rare, and what was summed is rescaled
// only then. It comes to lie `lead` below that exponent: f16 has numbers to spare above 1 and few
// below, where small weights would lose their last places.
#pragma once

#include <float.h>

#include <type_traits>

#include "src/cuda/target.cuh"
#include "src/gpu/sums.hpp"

namespace rapt::cuda::flash_wgmma {

template <class Element>
inline constexpr float lead = std::is_same_v<Element, F16> ? 6 : 0;
template <class Element>
inline constexpr float most = lead<Element> + 8;
inline constexpr float nothing_seen = -FLT_MAX;  // a reference that no exponent can fall short of

// The reference is the same in a quad; the sum, of the tiles' sums, is the thread's own part.
struct Rows {
  float reference[2];
  gpu::CompensatedSum sum[2];
};

RAPT_DEVICE Rows empty_rows() { return {{nothing_seen, nothing_seen}, {}}; }

// The largest score of a thread's part of a row.
template <int n>
RAPT_DEVICE float largest(const float (&scores)[n][4], int row) {
  float even = scores[0][2 * row], odd = scores[0][2 * row + 1];
  RAPT_UNROLL
  for (int j = 1; j < n; ++j) {
    even = fmaxf(even, scores[j][2 * row]);
    odd = fmaxf(odd, scores[j][2 * row + 1]);
  }
  return fmaxf(even, odd);
}

// Moves references to where the scores, times `scale`, need them. What was summed with the old ones
// is multiplied by `factor`, here the sums; false if that is 1 for the whole warp.
template <class Element, int n>
RAPT_DEVICE bool move_references(const float (&scores)[n][4], float scale, Rows& rows,
                                 float (&factor)[2]) {
  bool moved = false;
  RAPT_UNROLL
  for (int row = 0; row < 2; ++row) {
    const float top = gpu::largest_over<Target, 4>(largest(scores, row)) * scale;
    const float old = rows.reference[row];
    if (top > old + most<Element>) {
      rows.reference[row] = top - lead<Element>;
      moved = true;
    }
    factor[row] = Target::exp2(old - rows.reference[row]);
    rows.sum[row].scale(factor[row]);
  }
  return __any_sync(Target::all_lanes, moved);
}

// Scores become weights.
template <int n>
RAPT_DEVICE void weigh(float (&scores)[n][4], float scale, Rows& rows) {
  RAPT_UNROLL
  for (int row = 0; row < 2; ++row) {
    float even = 0, odd = 0;
    RAPT_UNROLL
    for (int j = 0; j < n; ++j) {
      float(&pair)[4] = scores[j];
      pair[2 * row] = Target::exp2(fmaf(pair[2 * row], scale, -rows.reference[row]));
      pair[2 * row + 1] = Target::exp2(fmaf(pair[2 * row + 1], scale, -rows.reference[row]));
      even += pair[2 * row];
      odd += pair[2 * row + 1];
    }
    rows.sum[row].add(even + odd);
  }
}

template <class Element>
RAPT_DEVICE uint32_t packed(float low, float high) {
  uint32_t word;
  if constexpr (std::is_same_v<Element, F16>)
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  else
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}

}  // namespace rapt::cuda::flash_wgmma
