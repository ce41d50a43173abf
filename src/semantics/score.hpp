// The score of one visible pair, from the dot product of its query and key.
#pragma once

#include <math.h>

#include "src/semantics/portable.hpp"

namespace rapt::semantics {

// What turns a dot product into a score, for one query head. Absent parts are zero.
template <class Real>
struct Scoring {
  Real scale, softcap, slope;
};

template <class Real>
RAPT_HOST_DEVICE Real score(const Scoring<Real>& scoring, Real dot, Real bias, Index position,
                            Index key) {
  Real s = scoring.scale * dot;
  if (scoring.softcap > 0) s = scoring.softcap * Real(tanh(s / scoring.softcap));
  const Index distance = position > key ? position - key : key - position;
  return s + bias - scoring.slope * Real(distance);
}

// How a capped score moves with what it was before the cap: 1 − tanh²(s / cap), as a quotient,
// since that difference cancels.
template <class Real>
RAPT_HOST_DEVICE Real cap_slope(Real softcap, Real scaled_dot) {
  if (!(softcap > 0)) return Real(1);
  const Real e = Real(exp(Real(-2) * Real(fabs(scaled_dot / softcap))));
  return Real(4) * e / ((Real(1) + e) * (Real(1) + e));
}

}  // namespace rapt::semantics
