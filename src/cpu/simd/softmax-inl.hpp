// The online softmax of one row over one tile of keys.
//
// Included once per target by files that include hwy/foreach_target.h.
#if defined(RAPT_SIMD_SOFTMAX_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef RAPT_SIMD_SOFTMAX_INL
#undef RAPT_SIMD_SOFTMAX_INL
#else
#define RAPT_SIMD_SOFTMAX_INL
#endif

#include <algorithm>
#include <cmath>

#include "src/cpu/row_operations.hpp"
#include "src/cpu/simd/math-inl.hpp"
#include "src/semantics/visibility.hpp"

HWY_BEFORE_NAMESPACE();
namespace rapt::HWY_NAMESPACE {

// The multiples of `step` around a range. What they hold beside the range becomes −inf.
HWY_INLINE semantics::Range widen_range(float* scores, semantics::Range keys,
                                        semantics::Index step) {
  const semantics::Range wide = {keys.begin / step * step, (keys.end + step - 1) / step * step};
  for (semantics::Index i = wide.begin; i < keys.begin; ++i) scores[i] = minus_infinity;
  for (semantics::Index i = keys.end; i < wide.end; ++i) scores[i] = minus_infinity;
  return wide;
}

HWY_INLINE float largest_score(const float* scores, semantics::Range wide) {
  const Floats d;
  const auto lanes = static_cast<semantics::Index>(hn::Lanes(d));
  FloatVector a = hn::Set(d, minus_infinity), b = a;
  semantics::Index i = wide.begin;
  for (; i + 2 * lanes <= wide.end; i += 2 * lanes) {
    a = hn::Max(a, hn::Load(d, scores + i));
    b = hn::Max(b, hn::Load(d, scores + i + lanes));
  }
  if (i < wide.end) a = hn::Max(a, hn::Load(d, scores + i));
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(a, b)));
}

// Takes a tile's largest exponent into the row's. Weights are then 2^(exponent − reference), and
// what was summed before is to be multiplied by `rescale`.
struct NewReference {
  float reference, rescale;
};
HWY_INLINE NewReference raise_max(float& row_max, float tile_max) {
  const float old = row_max;
  row_max = std::max(old, tile_max);
  if (row_max == minus_infinity) return {0, 1};  // nothing seen yet: every weight is 0, or NaN
  if (old == row_max) return {row_max, 1};
  return {row_max, hn::GetLane(exp2(hn::Set(Floats(), old - row_max)))};
}

// An exponent of 2 is scale · score − origin.
struct Exponents {
  float scale, origin;
};

// Beside an astronomic reference a fused product minus its own rounded value can be large, so that
// all products have to be rounded alike: scores become scaled ones. Beside +inf they become what
// their distance to it weighs (RowState): 0 for +inf itself, −inf for all that is less.
constexpr float astronomic = 0x1p20f;
HWY_INLINE Exponents astronomic_exponents(float* scores, semantics::Range wide, float scale,
                                          float reference) {
  for (semantics::Index i = wide.begin; i < wide.end; ++i) scores[i] *= scale;
  if (reference != infinity) return {1, reference};
  for (semantics::Index i = wide.begin; i < wide.end; ++i)
    scores[i] = scores[i] == infinity ? 0 : scores[i] - infinity;
  return {1, 0};
}

// Weights in place of scores; returns their sum.
HWY_INLINE float store_weights(float* scores, semantics::Range wide, Exponents exponents) {
  const Floats d;
  const auto lanes = static_cast<semantics::Index>(hn::Lanes(d));
  const FloatVector factor = hn::Set(d, exponents.scale), origin = hn::Set(d, exponents.origin);
  const auto weigh = [&](float* at) HWY_ATTR {
    const FloatVector weight = exp2(hn::MulSub(hn::Load(d, at), factor, origin));
    hn::Store(weight, d, at);
    return weight;
  };
  FloatVector sum0 = hn::Zero(d), sum1 = hn::Zero(d);
  semantics::Index i = wide.begin;
  for (; i + 2 * lanes <= wide.end; i += 2 * lanes) {
    sum0 = hn::Add(sum0, weigh(scores + i));
    sum1 = hn::Add(sum1, weigh(scores + i + lanes));
  }
  if (i < wide.end) sum0 = hn::Add(sum0, weigh(scores + i));
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)));
}

// The keys that a row sees in a tile, from scores to weights, in place; the other keys of
// `cleared`, which contains them, get weight 0. `scale` times a score is the exponent of 2. Updates
// the row's largest exponent and sum, and returns what its out is to be multiplied by. Rows begin
// at a vector's boundary and have room for whole vectors.
HWY_INLINE float softmax_row(float* scores, semantics::Range keys, semantics::Range cleared,
                             float scale, float& row_max, float& row_sum) {
  if (keys.begin == keys.end) {
    std::fill(scores + cleared.begin, scores + cleared.end, 0.0f);
    return 1;
  }
  const semantics::Range wide =
      widen_range(scores, keys, static_cast<semantics::Index>(hn::Lanes(Floats())));
  const auto [reference, rescale] = raise_max(row_max, largest_score(scores, wide) * scale);
  const Exponents exponents = std::abs(reference) > astronomic
                                  ? astronomic_exponents(scores, wide, scale, reference)
                                  : Exponents{scale, reference};
  row_sum = row_sum * rescale + store_weights(scores, wide, exponents);
  if (cleared.begin < wide.begin) std::fill(scores + cleared.begin, scores + wide.begin, 0.0f);
  if (cleared.end > wide.end) std::fill(scores + wide.end, scores + cleared.end, 0.0f);
  return rescale;
}

}  // namespace rapt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
