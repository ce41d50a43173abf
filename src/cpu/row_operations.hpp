// Vector work on single rows, shared by the flash and split-KV kernels: from dot products to
// scores, and from sums to results.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

#include "rapt/rapt.hpp"
#include "src/semantics/call.hpp"

namespace rapt {

inline constexpr float minus_infinity = -std::numeric_limits<float>::infinity();
inline constexpr float log2_e = std::numbers::log2e_v<float>;

// The natural logarithm of sum · 2^exponent; −inf for a sum of 0.
inline float natural_log(float exponent, float sum) {
  if (sum == 0) return minus_infinity;
  return static_cast<float>(double(exponent) * std::numbers::ln2 + std::log(double(sum)));
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

// For a problem whose scores are more than scaled dot products.
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
