// Softmax of the two rows of scores that a thread shares with the three other lanes of its quad.
//
// Weights are 2^(exponent − row max). The row max need not be the largest exponent so far: any
// number near it gives the same quotient of sums. So it moves only when an exponent exceeds it by
// more than `most`, which after the first tile of a row is rare, and what was summed is rescaled
// only then. It comes to lie `lead` below that exponent: f16 has numbers to spare above 1 and few
// below, where small weights would lose their last places.
#pragma once

#include <float.h>

#include <type_traits>

#include "src/cuda/hopper/promoted_matrix.cuh"
#include "src/cuda/target.cuh"
#include "src/gpu/long_sums.hpp"

namespace rapt::cuda::flash_wgmma {

template <class Element>
inline constexpr float lead = std::is_same_v<Element, F16> ? 6 : 0;
template <class Element>
inline constexpr float most = lead<Element> + 8;
inline constexpr float nothing_seen = -FLT_MAX;  // a row max that no exponent can fall short of

// Sums of earlier tiles are promoted in memory of the thread, used too seldom to take registers
// from the loop: arrays indexed by what the compiler does not know.
//
// Tiles whose products are added up by the tensor cores, which cut sums off where others round:
// after this many, or one more, the output is promoted (hopper::PromotedMatrix).
inline constexpr int tiles_of_output_span = 256;

// The row max is the same in a quad; the sum is the thread's own part, of the last tiles, at most
// `tiles_of_span`.
inline constexpr int tiles_of_span = 32;
static_assert(tiles_of_output_span % tiles_of_span == 0);
struct Rows {
  float row_max[2], sum[2];
};

RAPT_DEVICE Rows empty_rows() { return {{nothing_seen, nothing_seen}, {0, 0}}; }

// Sums of the tiles before those, with what rounding takes from them, and what they refer to. What
// a row has here depends on its own row maxima alone, not on when those of its neighbours move.
// (gpu::PromotedSums knows in a register whether it has any, and the loop has none to spare.)
class PromotedRowSums {
 public:
  RAPT_DEVICE void take(Rows& rows, bool first_time) {
    const int first = Target::unknown(0);
    RAPT_UNROLL
    for (int row = 0; row < 2; ++row) {
      gpu::CompensatedSum sum = {rows.sum[row], 0};
      if (!first_time) sum = joined(first + row, rows, row);
      sums_[first + row] = sum;
      row_max_[first + row] = rows.row_max[row];
      rows.sum[row] = 0;
    }
  }
  RAPT_DEVICE void join(Rows& rows) const {
    const int first = Target::unknown(0);
    RAPT_UNROLL
    for (int row = 0; row < 2; ++row) rows.sum[row] = joined(first + row, rows, row).total();
  }

 private:
  RAPT_DEVICE gpu::CompensatedSum joined(int at, const Rows& rows, int row) const {
    gpu::CompensatedSum sum = sums_[at];
    sum.scale(Target::exp2(row_max_[at] - rows.row_max[row]));
    sum.add(rows.sum[row]);
    return sum;
  }

  gpu::CompensatedSum sums_[2];
  float row_max_[2];
};

// From dot products, or from scores, to exponents: `exponent(dot, minus)` has something taken off
// at no cost. It rises with the dot product, so the largest exponent is that of the largest one.
struct Scaled {
  float scale;
  RAPT_DEVICE float exponent(float dot, float minus) const { return fmaf(dot, scale, -minus); }
};

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

// A row's, from the parts of the quad; NaN is skipped.
RAPT_DEVICE float largest_of_quad(float own) {
  own = fmaxf(own, Target::shuffle_xor(own, 2));
  return fmaxf(own, Target::shuffle_xor(own, 1));
}

// Moves a row's row max to where its exponents need it. What was summed with the old one is
// multiplied by `factor`, here the sum; false if that is 1 for the quad.
template <class Element, int n, class Exponents>
RAPT_DEVICE bool update_max(const float (&scores)[n][4], const Exponents& exponents, int row,
                            Rows& rows, float (&factor)[2]) {
  const float old = rows.row_max[row], dot = largest_of_quad(largest(scores, row));
  const bool max_changed = exponents.exponent(dot, old) > most<Element>;
  // Never +∞, so that an exponent of +∞ makes the sum +∞ and not NaN.
  if (max_changed) rows.row_max[row] = fminf(exponents.exponent(dot, 0) - lead<Element>, FLT_MAX);
  factor[row] = Target::exp2(old - rows.row_max[row]);
  rows.sum[row] *= factor[row];
  return max_changed;
}

// The same where a vote of the warp says that a row max may move, which is returned. No score of
// the thread's part of the row is above `bound`.
template <class Element, int n, class Exponents>
RAPT_DEVICE bool update_max(const float (&scores)[n][4], float bound, const Exponents& exponents,
                            int row, Rows& rows, float (&factor)[2]) {
  factor[row] = 1;
  const float exponent = exponents.exponent(bound, rows.row_max[row]);
  const bool any = __any_sync(Target::all_lanes, exponent > most<Element>);
  if (any) update_max<Element>(scores, exponents, row, rows, factor);
  return any;
}

// A row's scores become weights.
template <int n, class Exponents>
RAPT_DEVICE void exponentiate(float (&scores)[n][4], const Exponents& exponents, int row,
                              Rows& rows) {
  float even = 0, odd = 0;
  RAPT_UNROLL
  for (int j = 0; j < n; ++j) {
    float(&pair)[4] = scores[j];
    pair[2 * row] = Target::exp2(exponents.exponent(pair[2 * row], rows.row_max[row]));
    pair[2 * row + 1] = Target::exp2(exponents.exponent(pair[2 * row + 1], rows.row_max[row]));
    even += pair[2 * row];
    odd += pair[2 * row + 1];
  }
  rows.sum[row] += even + odd;
}

}  // namespace rapt::cuda::flash_wgmma
