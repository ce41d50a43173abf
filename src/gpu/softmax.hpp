// Scores on a GPU. Softmax works in base 2: an exponent is a score times log2(e), −∞ for a pair
// that is not visible; a weight is 2^(exponent − row max).
#pragma once

#include <math.h>

#include "src/gpu/target.hpp"
#include "src/semantics/call.hpp"
#include "src/semantics/score.hpp"

namespace rapt::gpu {

inline constexpr float log2_e = 1.4426950408889634f, natural_log_of_2 = 0.6931471805599453f;
inline constexpr float minus_infinity = -INFINITY;

RAPT_DEVICE bool is_infinite(float x) { return x == INFINITY || x == minus_infinity; }

// Whether a score is more than a dot product times a scale above 0, which alone has the largest
// score where the largest dot product is. The same for all threads of a launch.
RAPT_HOST_DEVICE bool has_score_mod(const semantics::Call& call) {
  return call.bias || call.mask || call.alibi || call.softcap > 0 || call.scale <= 0;
}

RAPT_DEVICE bool hidden_by_mask(const semantics::Call& call, Index sequence, Index head,
                                Index query, Index key) {
  return call.mask &&
         !call.mask[semantics::pair_offset(call.mask_stride, sequence, head, query, key)];
}

// The score of a pair that is visible.
template <class Target, class Element>
RAPT_DEVICE float score_of_pair(const semantics::Call& call, Index sequence, Index head,
                                Index query, Index position, Index key, float dot) {
  float bias = 0;
  if (call.bias) {
    const Index at = semantics::pair_offset(call.bias_stride, sequence, head, query, key);
    bias = call.bias_is_f32 ? static_cast<const float*>(call.bias)[at]
                            : Target::to_float(static_cast<const Element*>(call.bias)[at]);
  }
  const float slope = call.alibi ? semantics::slope_of(call, sequence, head) : 0.0f;
  const semantics::Scoring<float> score_mod = {call.scale, call.softcap, slope};
  return semantics::score(score_mod, dot, bias, position, key);
}

// The exponent of a pair inside the window, where has_score_mod().
template <class Target, class Element>
RAPT_DEVICE float scored_exponent(const semantics::Call& call, Index sequence, Index head,
                                  Index query, Index position, Index key, float dot) {
  if (hidden_by_mask(call, sequence, head, query, key)) return minus_infinity;
  return Target::product(
      score_of_pair<Target, Element>(call, sequence, head, query, position, key, dot), log2_e);
}

// One row of softmax so far: weights are relative to `row_max`; −∞ and 0 while nothing was seen.
struct RowState {
  float row_max, sum;
};

// NaN and infinities go the way of the sum. A row max is the largest of numbers, NaN left out,
// and so it may be any number, or −∞, for a row with a NaN; the NaN's weight is NaN, and so is the
// sum. An exponent of +∞ makes the row max +∞, which is taken for 0 in differences: the sum is +∞
// then, unless there is a NaN too. Only a sum of 0 says that a row has seen nothing.

// A sink is a key without a value, seen before all others.
RAPT_DEVICE RowState first_state(const semantics::Call& call, Index head) {
  const float sink = call.sinks ? call.sinks[head] * log2_e : minus_infinity;
  const bool is_number = sink - sink == 0;
  return {sink, sink == minus_infinity ? 0.0f : is_number ? 1.0f : sink};
}

// What a row max is taken for in a difference, so that ∞ − ∞ does not come up.
RAPT_DEVICE float finite_max(float new_max) { return is_infinite(new_max) ? 0.0f : new_max; }

// Where dot products become weights as 2^(dot · scale − base), in one multiply-add, base is rounded
// and dot · scale is not: the largest weight is 2 to the power of what rounding took from its own
// exponent. That is 2^¼ at most while row maxima are within this bound. Beyond it, where the steps
// of f32 count, products are rounded before.
inline constexpr float most_fused = 0x1p23f;
RAPT_DEVICE bool can_be_fused(float base) { return base <= most_fused && base >= -most_fused; }

// What brings sums from one row max to a later one, which is not smaller: at most 1, so that
// nothing becomes of 0 · ∞ where a part of a row has no weight and another one +∞.
template <class Target>
RAPT_DEVICE float rescale_factor(float old, float new_max) {
  const float difference = old - finite_max(new_max);
  return Target::exp2(difference < 0 ? difference : 0.0f);
}

template <class Target>
RAPT_DEVICE float natural_log_sum(RowState state) {
  return state.sum == 0 ? minus_infinity
                        : (state.row_max + Target::log2(state.sum)) * natural_log_of_2;
}

RAPT_DEVICE float reciprocal_or_zero(float sum) { return sum == 0 ? 0.0f : 1.0f / sum; }

}  // namespace rapt::gpu
