// The hyperbolic tangent on AMD GPUs, whose instructions include 2^x but not this.
#pragma once

#include "src/semantics/portable.hpp"

namespace rapt::hip {

// Within some two units in the last place, near 0 too, where 1 − 2 / (e^2x + 1) would cancel: there
// x + x³ P(x²), with the coefficients of the Cephes library. Beyond 9 it is 1 in f32.
template <class Exp2>
RAPT_HOST_DEVICE float hyperbolic_tangent(float x, Exp2 exp2) {
  const float size = x < 0 ? -x : x;
  if (size < 0.625f) {
    const float square = x * x;
    float sum = -5.70498872745e-3f;
    sum = sum * square + 2.06390887954e-2f;
    sum = sum * square - 5.37397155531e-2f;
    sum = sum * square + 1.33314422036e-1f;
    sum = sum * square - 3.33332819422e-1f;
    return x + x * square * sum;
  }
  if (!(size < 9)) return size == size ? (x < 0 ? -1.0f : 1.0f) : x;
  constexpr float twice_log2_e = 2.8853900817779268f;
  const float tangent = 1 - 2 / (exp2(size * twice_log2_e) + 1);
  return x < 0 ? -tangent : tangent;
}

}  // namespace rapt::hip
