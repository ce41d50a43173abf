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

}  // namespace rapt::semantics
