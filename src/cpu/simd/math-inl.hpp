// Vector mathematics on top of Highway: conversions to f32, exp2 and tanh.
//
// Included once per target by files that include hwy/foreach_target.h.
#if defined(RAPT_SIMD_MATH_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef RAPT_SIMD_MATH_INL
#undef RAPT_SIMD_MATH_INL
#else
#define RAPT_SIMD_MATH_INL
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <type_traits>

#include "src/core/float16.hpp"

HWY_BEFORE_NAMESPACE();
namespace rapt::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using FloatVector = hn::Vec<Floats>;

// As many f32 values as a vector holds (or D is wide), from elements of any type.
template <class D>
HWY_INLINE hn::Vec<D> load_floats(D d, const float* from) {
  return hn::LoadU(d, from);
}
template <class D>
HWY_INLINE hn::Vec<D> load_floats(D d, const BF16* from) {
  const hn::Rebind<hwy::bfloat16_t, D> narrow;
  return hn::PromoteTo(d, hn::LoadU(narrow, reinterpret_cast<const hwy::bfloat16_t*>(from)));
}
template <class D>
HWY_INLINE hn::Vec<D> load_floats(D d, const F16* from) {
#if HWY_TARGET == HWY_SCALAR
  // Highway's own conversion gives 65536 for infinity there.
  HWY_ALIGN float floats[hn::MaxLanes(D())];
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) floats[i] = to_float(from[i]);
  return hn::Load(d, floats);
#else
  const hn::Rebind<hwy::float16_t, D> narrow;
  return hn::PromoteTo(d, hn::LoadU(narrow, reinterpret_cast<const hwy::float16_t*>(from)));
#endif
}

// A vector as elements of any type, rounded to nearest, ties to even.
template <class Element>
HWY_INLINE void store_floats(FloatVector from, Element* to) {
  const Floats d;
  if constexpr (sizeof(Element) == sizeof(float)) {
    hn::StoreU(from, d, to);
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  } else if constexpr (std::is_same_v<Element, F16>) {
    const hn::Rebind<hwy::float16_t, Floats> narrow;
    hn::StoreU(hn::DemoteTo(narrow, from), narrow, reinterpret_cast<hwy::float16_t*>(to));
#endif
  } else {
    HWY_ALIGN float floats[hn::MaxLanes(Floats())];
    hn::Store(from, d, floats);
    for (std::size_t i = 0; i < hn::Lanes(d); ++i) to[i] = from_float<Element>(floats[i]);
  }
}

// 2^x for x ≤ 127, within 2.5e-7 relative; 0 for x ≤ −150; NaN for NaN. x = n + f with n whole: a
// minimax polynomial gives 2^f, exact at f = 0, and n goes into the exponent.
HWY_INLINE FloatVector exp2(FloatVector x) {
  const Floats d;
#if HWY_TARGET == HWY_AVX3
  // 0 ≤ f < 1; two instructions made for it take care of all special values.
  const FloatVector f{_mm512_reduce_ps(x.raw, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)};
  constexpr float factors[] = {1.867130166e-3f, 9.017029777e-3f, 5.579991266e-2f, 2.401644439e-1f,
                               6.931512952e-1f};
#else
  // |f| ≤ 1/2. Adding `shift` rounds to a whole number and leaves n + 127 in the lowest bits of the
  // mantissa.
  const FloatVector shift = hn::Set(d, 0x1.8p23f + 127.0f), least = hn::Set(d, -127.0f);
#if HWY_TARGET == HWY_AVX2
  x = hn::Max(least, x);  // NaN stays: of the two, x86 takes the second
#else
  x = hn::IfThenElse(hn::Lt(x, least), least, x);
#endif
  const FloatVector shifted = hn::Add(x, shift);
  const FloatVector f = hn::Sub(x, hn::Sub(shifted, shift));
  constexpr float factors[] = {1.326472731e-3f, 9.671512991e-3f, 5.550733581e-2f, 2.402224243e-1f,
                               6.931470037e-1f};
#endif
  FloatVector p = hn::MulAdd(hn::Set(d, factors[0]), f, hn::Set(d, factors[1]));
  p = hn::MulAdd(p, f, hn::Set(d, factors[2]));
  p = hn::MulAdd(p, f, hn::Set(d, factors[3]));
  p = hn::MulAdd(p, f, hn::Set(d, factors[4]));
  p = hn::MulAdd(p, f, hn::Set(d, 1.0f));
#if HWY_TARGET == HWY_AVX3
  return FloatVector{_mm512_scalef_ps(p.raw, x.raw)};
#else
  const hn::RebindToSigned<Floats> di;
  return hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
#endif
}

// tanh x within 4e-7 relative. Near 0 an odd polynomial, else 1 − 2 / (e^2x + 1).
HWY_INLINE FloatVector tanh(FloatVector x) {
  const Floats d;
  const FloatVector magnitude = hn::Abs(x);
  const FloatVector square = hn::Mul(x, x);
  FloatVector p = hn::Set(d, -5.515163764e-3f);
  p = hn::MulAdd(p, square, hn::Set(d, 2.046941966e-2f));
  p = hn::MulAdd(p, square, hn::Set(d, -5.368802324e-2f));
  p = hn::MulAdd(p, square, hn::Set(d, 1.333083063e-1f));
  p = hn::MulAdd(p, square, hn::Set(d, -3.333325982e-1f));
  const FloatVector near = hn::MulAdd(hn::Mul(p, square), x, x);

  const FloatVector two = hn::Set(d, 2.0f), one = hn::Set(d, 1.0f);
  const FloatVector clamped = hn::Min(magnitude, hn::Set(d, 20.0f));  // there tanh is 1
  const FloatVector power = exp2(hn::Mul(clamped, hn::Set(d, 2.885390082f)));
  const FloatVector far = hn::Sub(one, hn::Div(two, hn::Add(power, one)));
  const FloatVector result =
      hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 0.65f)), near, hn::CopySign(far, x));
  return hn::IfThenElse(hn::Eq(x, x), result, x);  // NaN stays NaN
}

}  // namespace rapt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
