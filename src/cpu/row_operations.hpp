// Vector work on single rows, shared by the flash and split-KV kernels: from dot products to
// scores, and from sums to results.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

#include "rapt/rapt.hpp"
#include "src/semantics/call.hpp"

namespace rapt {

inline constexpr float infinity = std::numeric_limits<float>::infinity();
inline constexpr float minus_infinity = -infinity;
inline constexpr float log2_e = std::numbers::log2e_v<float>;

// What a row knows of the keys it has seen: the sum of their weights, 2^(exponent − reference).
// Before it sees any it is 2^−∞ · 0. A score that is NaN makes the sum NaN, whatever the reference.
// One of +inf makes the reference +inf and weighs 1, so that the sum still tells whether another
// one is NaN; the row's out is NaN in any case.
struct RowState {
  float reference, sum;
};

// A sink is a key without a value.
inline RowState state_of_sink(const semantics::Call& call, semantics::Index head) {
  const float sink = call.sinks ? call.sinks[head] : minus_infinity;
  if (std::isnan(sink)) return {minus_infinity, sink};
  return {sink * log2_e, sink == minus_infinity ? 0.0f : 1.0f};
}

// What brings sums that are relative to 2^from to 2^to, which is no less.
inline double factor_between(double from, double to) {
  return from == to ? 1 : std::exp2(from - to);
}

// A row with its sink, which comes last: no weight of a key is relative to it. `factor` brings what
// the row has to the reference of both.
struct WithSink {
  RowState state;
  float factor;
};
inline WithSink with_sink(const RowState& keys, const RowState& sink) {
  const float reference = std::max(keys.reference, sink.reference);
  const double factor = factor_between(keys.reference, reference);
  const double sum = keys.sum * factor + sink.sum * factor_between(sink.reference, reference);
  return {{reference, static_cast<float>(sum)}, static_cast<float>(factor)};
}

// What turns a row's weighted values into its out.
inline float inverse_sum(const RowState& row) {
  if (row.reference == infinity) return std::numeric_limits<float>::quiet_NaN();
  return row.sum == 0 ? 0 : 1 / row.sum;
}

// The natural logarithm of sum · 2^reference; −inf for a sum of 0.
inline float natural_log(const RowState& row) {
  if (row.sum == 0) return minus_infinity;
  return static_cast<float>(double(row.reference) * std::numbers::ln2 + std::log(double(row.sum)));
}

// What turns the dot products of one row into scores, from some key on.
struct RowScoring {
  float scale, softcap, slope;  // 0: no cap, no slope
  float distance;               // of the first key from the row's position; negative beyond it
  const void* bias;             // of the first key; null: none
  DType bias_type;
  semantics::Index bias_step;  // from key to key: 0 or 1
  const std::uint8_t* mask;    // of the first key; null: none
  semantics::Index mask_step;
};

// Whether scores are more than dot products times a scale above 0, which alone have the largest
// score where the largest dot product is.
bool has_scoring(const semantics::Call& call);
// The scoring of one query of one head, from `first_key` on.
RowScoring row_scoring(const semantics::Call& call, DType dtype,
                       const semantics::Sequence& sequence, semantics::Index head,
                       semantics::Index query, semantics::Index first_key);

struct RowOperations {
  // Dot products become scores, in place; −inf where the mask forbids.
  void (*score)(const RowScoring&, float* row, semantics::Index count);
  // to[i] = row[i] · factor, rounded to the element type.
  void (*store)(DType, const float* row, float factor, semantics::Index count, void* to);
};

const RowOperations& row_operations();

}  // namespace rapt
