// How a careful computation rounds (docs/numerics.md derives it): what one pair's score may be off
// by, and the constants that the bounds of forward and of gradients share.
#pragma once

#include <algorithm>
#include <cmath>

#include "rapt/rapt.hpp"
#include "src/core/call.hpp"
#include "src/verify/row_bounds.hpp"

namespace rapt::verify {

inline constexpr double f32_unit = 0x1p-24, tf32_unit = 0x1p-11;

// In units of f32's roundoff. A score is a dot product, scaled, capped, with a bias and a slope
// added, less a reference; weights are functions of it; sums add them up.
inline constexpr double dot_roundings = 8, cap_roundings = 8, add_roundings = 2, sum_roundings = 32,
                        equal_roundings = 48, lse_roundings = 6;
// Tensor cores cut off what they add up, so terms of one sign all lose.
inline constexpr double same_sign_roundings = 32;
// TF32 factors that are cut off instead of rounded: so much of a unit all products shrink by.
inline constexpr double cut_off_units = 1.5;
// Standard deviations that the sum of independent roundings may be off by: of an element, of which
// there are many, and of all together.
inline constexpr double element_deviations = 8, whole_deviations = 4;
// A rounding is off by up to half a step, evenly.
inline const double deviation_of_rounding = 1 / std::sqrt(3.0);
// Relatively to numbers of any size between two powers of two, less.
inline constexpr double deviation_of_any_rounding = 0.43;

// How the kernels of a problem round beside f32 arithmetic.
struct Roundings {
  double weight;    // of e^s, relatively; 0: none
  double smallest;  // of e^s, whose largest is about 1, absolutely
  double factors;   // of products' factors: q, k and v as TF32
  double result;
  // Some kernels divide by the sum of rounded weights: a rounding moves the result to a value or
  // away.
  bool may_move;

  explicit Roundings(const Problem& p)
      : weight(p.dtype == DType::f32 ? 0 : unit_roundoff(p.dtype)),
        smallest(p.dtype == DType::f16 ? 0x1p-25 : 0),
        factors(0),
        result(unit_roundoff(p.out_dtype)),
        may_move(p.dtype == DType::bf16) {
    if (p.dtype == DType::f32 && p.tf32) weight = factors = tf32_unit;
  }
  bool weights_alike() const { return weight > 0 && factors == 0; }
};

// To the nearest number of a type with that unit roundoff, none of whose steps are below
// 2 · smallest: adding what leaves no room for the last bits makes fp64 round them away.
inline double rounded_to(double unit, double smallest, double value) {
  if (std::abs(value) * unit < smallest) {
    const double large = 0x1.8p53 * smallest;
    return value + large - large;
  }
  const double large = value * (0x1p53 * unit + 1);
  return large - (large - value);
}

inline constexpr double beyond_f16 = 65520;  // f16 rounds this and more to infinity
// Whether a result is infinite for a good reason: its type does not reach as far.
inline bool overflows(DType dtype, double want, double allowed, double got) {
  return dtype == DType::f16 && std::isinf(got) && std::isfinite(want) && (got > 0) == (want > 0) &&
         std::abs(want) + allowed >= beyond_f16;
}

// A pair's dot product with the scale: itself, as if no terms cancelled, and what rounding its
// factors may do to it, as a standard deviation.
struct PairSize {
  double dot, absolute, deviation;
};

inline double number_of(double number) { return number; }
template <class Element>
double number_of(Element element) {
  return to_float(element);
}

template <class Element>
PairSize size_of_pair(const Roundings& roundings, const Element* q, const Element* k,
                      semantics::Index count, double scale) {
  double dot = 0, absolute = 0, squares = 0, rounded = 0;
  for (semantics::Index d = 0; d < count; ++d) {
    const double product = number_of(q[d]) * number_of(k[d]);
    dot += product;
    absolute += std::abs(product);
    squares += product * product;
  }
  scale = std::abs(scale);
  if (roundings.factors == 0) return {scale * dot, scale * absolute, 0};
  for (semantics::Index d = 0; d < count; ++d)
    rounded += rounded_to(roundings.factors, 0, number_of(q[d])) *
               rounded_to(roundings.factors, 0, number_of(k[d]));
  // Roundings are independent, but for numbers that are alike.
  const double independent = std::sqrt(2 * squares) * roundings.factors * deviation_of_any_rounding;
  return {scale * dot, scale * absolute,
          scale * std::max(independent, std::abs(rounded - dot) / 2)};
}

// What the rounding of one pair's score may be: surely, and as a standard deviation. And by how
// much it grows with its dot product, for every part of 1.
struct ScoreError {
  double firm, deviation, growth;
};

inline ScoreError error_of_score(const semantics::Call& call, const PairSize& size, double score,
                                 double bias, double slope_term, double reference,
                                 double roundings_of_dot = dot_roundings) {
  const bool finite = std::isfinite(size.absolute);  // else the score is the cap
  double of_dot = finite ? f32_unit * roundings_of_dot * size.absolute : 0;
  double deviation = finite ? size.deviation : 0;
  double dot = finite ? size.dot : 0;
  double others = std::abs(bias) + std::abs(slope_term) + std::abs(score) + std::abs(reference);
  if (call.softcap > 0) {
    // The cap flattens what came before it: by its derivative, the largest within these errors.
    const double cap = call.softcap;
    const double nearest = std::max(0.0, std::abs(dot) - of_dot - 4 * deviation) / cap;
    const double cosine = std::cosh(std::min(nearest, 300.0));
    of_dot /= cosine * cosine;
    dot /= cosine * cosine;
    deviation /= cosine * cosine;
    others += cap_roundings / add_roundings * std::min(cap, size.absolute);
  }
  return {of_dot + f32_unit * add_roundings * others, deviation, dot};
}

}  // namespace rapt::verify
