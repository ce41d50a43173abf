// Weights and their gradients, from dot products: what the backward engines do to one row.
//
// Included once per target by files that include hwy/foreach_target.h.
#if defined(RAPT_SIMD_BACKWARD_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef RAPT_SIMD_BACKWARD_INL
#undef RAPT_SIMD_BACKWARD_INL
#else
#define RAPT_SIMD_BACKWARD_INL
#endif

#include <algorithm>
#include <cmath>

#include "src/cpu/backward_engine.hpp"
#include "src/cpu/row_operations.hpp"
#include "src/cpu/simd/math-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace rapt::HWY_NAMESPACE {

// slopes[i] = 4e / (1 + e)², e = e^(−2 |dot · scale / cap|)
HWY_INLINE void cap_slopes(const float* dots, semantics::Index count, float scale, float cap,
                           float* slopes) {
  const Floats d;
  const FloatVector factor = hn::Set(d, -2 * log2_e * std::abs(scale / cap));
  const FloatVector one = hn::Set(d, 1.0f), four = hn::Set(d, 4.0f);
  for (semantics::Index i = 0; i < count; i += static_cast<semantics::Index>(hn::Lanes(d))) {
    const FloatVector e = exp2(hn::Mul(factor, hn::Abs(hn::LoadU(d, dots + i))));
    const FloatVector sum = hn::Add(one, e);
    hn::StoreU(hn::Div(hn::Mul(four, e), hn::Mul(sum, sum)), d, slopes + i);
  }
}

// P = e^(score · scale − lse)
HWY_INLINE FloatVector weight_of(FloatVector score, FloatVector scale, FloatVector lse) {
  return exp2(hn::Mul(hn::MulSub(score, scale, lse), hn::Set(Floats(), log2_e)));
}

// What a row sees of `keys`, of which it may see none although they are in its window: where lse is
// −inf, masks hide every key.
HWY_INLINE semantics::Range seen_keys(const GradientTile& t, semantics::Index row,
                                      semantics::Range keys) {
  if (t.lse[row] == minus_infinity) return {keys.begin, keys.begin};
  return semantics::within(t.row_keys[row], keys);
}

// Dot products of a row with some keys become Z P, those with dout become dX. Loops go on to whole
// vectors. `slopes` has room for as many.
HWY_INLINE void weigh_keys(const GradientTile& t, semantics::Index row, semantics::Range keys,
                           float* weights, float* gradients, float* slopes) {
  const Floats d;
  const semantics::Index count = keys.end - keys.begin;
  if (t.softcap > 0) cap_slopes(weights, count, t.scale, t.softcap, slopes);
  if (t.score_row) t.score_row(t, row, keys, weights);
  HWY_ALIGN float kept[most_backward_keys];
  if (t.drop_row) {
    std::fill_n(kept, count, 1.0f);
    t.drop_row(t, row, keys, kept);
    for (semantics::Index i = 0; i < count; ++i) gradients[i] *= kept[i];
  }
  const FloatVector scale = hn::Set(d, t.score_row ? 1.0f : t.scale);
  const FloatVector lse = hn::Set(d, t.lse[row]), delta = hn::Set(d, t.deltas[row]);
  for (semantics::Index i = 0; i < count; i += static_cast<semantics::Index>(hn::Lanes(d))) {
    const FloatVector weight = weight_of(hn::LoadU(d, weights + i), scale, lse);
    hn::StoreU(weight, d, weights + i);
    hn::StoreU(hn::Mul(weight, hn::Sub(hn::LoadU(d, gradients + i), delta)), d, gradients + i);
  }
  for (semantics::Index i = 0; t.drop_row && i < count; ++i) weights[i] *= kept[i];
  if (t.see_row) t.see_row(t, row, keys, gradients);
  if (t.softcap > 0) {
    for (semantics::Index i = 0; i < count; ++i) gradients[i] *= slopes[i];
  }
}

}  // namespace rapt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
