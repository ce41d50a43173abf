#include "src/cpu/row_operations.hpp"

#include "src/cpu/simd/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/cpu/row_operations.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "src/core/call.hpp"
#include "src/cpu/simd/softmax-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace rapt::HWY_NAMESPACE {
namespace {

using semantics::Index;

// row[i] = cap · tanh(row[i] · scale / cap)
void cap_scores(float* row, Index count, float scale, float cap) {
  const Floats d;
  const auto lanes = static_cast<Index>(hn::Lanes(d));
  const FloatVector factor = hn::Set(d, scale / cap), limit = hn::Set(d, cap);
  Index i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::Mul(limit, tanh(hn::Mul(hn::LoadU(d, row + i), factor))), d, row + i);
  }
  for (; i < count; ++i)
    row[i] = hn::GetLane(hn::Mul(limit, tanh(hn::Set(d, row[i] * scale / cap))));
}

template <class Element>
void add_bias(float* row, Index count, const Element* bias, Index step) {
  if (step == 0) {
    for (Index i = 0; i < count; ++i) row[i] += to_float(*bias);
  } else {
    for (Index i = 0; i < count; ++i) row[i] += to_float(bias[i]);
  }
}

void apply_mask(float* row, Index count, const std::uint8_t* mask, Index step) {
  if (step == 0) {
    if (*mask == 0) std::fill_n(row, count, minus_infinity);
    return;
  }
  for (Index i = 0; i < count; ++i) row[i] = mask[i] != 0 ? row[i] : minus_infinity;
}

// A tile's keys are counted in int, so that the loop vectorises.
void subtract_slope(float* row, int count, const RowScoring& scoring) {
  const float slope = scoring.slope, distance = scoring.distance;
  for (int i = 0; i < count; ++i) row[i] -= slope * std::abs(distance - static_cast<float>(i));
}

void score(const RowScoring& scoring, float* row, Index count) {
  if (scoring.softcap > 0) {
    cap_scores(row, count, scoring.scale, scoring.softcap);
  } else {
    for (Index i = 0; i < count; ++i) row[i] *= scoring.scale;
  }
  if (scoring.bias) {
    with_element_type(scoring.bias_type, [&](auto type) {
      add_bias(row, count, static_cast<const decltype(type)*>(scoring.bias), scoring.bias_step);
    });
  }
  if (scoring.slope != 0) subtract_slope(row, static_cast<int>(count), scoring);
  if (scoring.mask) apply_mask(row, count, scoring.mask, scoring.mask_step);
}

void store(DType dtype, const float* row, float factor, Index count, void* to) {
  with_element_type(dtype, [&](auto type) {
    using Element = decltype(type);
    auto* elements = static_cast<Element*>(to);
    for (Index i = 0; i < count; ++i) elements[i] = from_float<Element>(row[i] * factor);
  });
}

}  // namespace

constexpr RowOperations operations = {score, store};

}  // namespace rapt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rapt {

const RowOperations& row_operations() { RAPT_BEST_TARGET(operations); }

bool has_scoring(const semantics::Call& call) {
  return call.softcap > 0 || call.bias || call.alibi || call.mask || call.scale <= 0;
}

RowScoring row_scoring(const semantics::Call& call, DType dtype,
                       const semantics::Sequence& sequence, semantics::Index head,
                       semantics::Index query, semantics::Index first_key) {
  RowScoring row = {};
  row.scale = call.scale;
  row.softcap = call.softcap;
  row.slope = call.alibi ? semantics::slope_of(call, sequence.index, head) : 0;
  row.distance = static_cast<float>(query + sequence.offset - first_key);
  if (call.bias) {
    row.bias_type = call.bias_is_f32 ? DType::f32 : dtype;
    row.bias_step = call.bias_stride[3];
    row.bias = static_cast<const std::byte*>(call.bias) +
               semantics::pair_offset(call.bias_stride, sequence.index, head, query, first_key) *
                   size_in_bytes(row.bias_type);
  }
  if (call.mask) {
    row.mask_step = call.mask_stride[3];
    row.mask = call.mask +
               semantics::pair_offset(call.mask_stride, sequence.index, head, query, first_key);
  }
  return row;
}

}  // namespace rapt
#endif
