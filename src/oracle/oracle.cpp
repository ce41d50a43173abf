#include "src/oracle/oracle.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/core/call.hpp"
#include "src/semantics/score.hpp"

namespace rapt {

using semantics::Index;

double element(const void* data, DType dtype, Index index) {
  return with_element_type(dtype, [&](auto type) {
    return static_cast<double>(to_float(static_cast<const decltype(type)*>(data)[index]));
  });
}

namespace {

// Several sums side by side: adding to one after another would take most of the oracle's time.
template <class Real, class Element>
Real dot_product(const Element* q, const Element* k, Index count) {
  constexpr Index lanes = 8;
  Real sums[lanes] = {};
  Index d = 0;
  for (; d + lanes <= count; d += lanes) {
    for (Index lane = 0; lane < lanes; ++lane)
      sums[lane] += Real(to_float(q[d + lane])) * Real(to_float(k[d + lane]));
  }
  for (; d < count; ++d) sums[0] += Real(to_float(q[d])) * Real(to_float(k[d]));
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

}  // namespace

template <class Real>
void scores_of_row(const semantics::Call& call, DType dtype, const Row& row,
                   std::span<Real> scores) {
  const semantics::Sequence& sequence = row.sequence;
  const Index head = row.head, query = row.query, kv_head = semantics::kv_head_of(call, head);
  const Index position = query + sequence.offset;
  const Index q_row =
      semantics::row_offset(call.q_stride, semantics::query_place(call, sequence, query), head);
  const Real slope = call.alibi ? Real(semantics::slope_of(call, sequence.index, head)) : Real(0);
  const semantics::Scoring<Real> scoring = {Real(call.scale), Real(call.softcap), slope};

  with_element_type(dtype, [&](auto type) {
    using Element = decltype(type);
    for (Index key = 0; key < sequence.kv_len; ++key) {
      Real& score = scores[static_cast<std::size_t>(key)];
      score = -std::numeric_limits<Real>::infinity();
      if (!semantics::in_window(call.window, position, key, sequence.kv_len)) continue;
      if (!mask_at(call, sequence.index, head, query, key)) continue;
      const Index k_row =
          semantics::row_offset(call.k_stride, semantics::key_place(call, sequence, key), kv_head);
      const Real dot = dot_product<Real>(static_cast<const Element*>(call.q) + q_row,
                                         static_cast<const Element*>(call.k) + k_row, call.qk_dim);
      const float bias = bias_at<Element>(call, sequence.index, head, query, key);
      score = semantics::score(scoring, dot, Real(bias), position, key);
    }
  });
}

template void scores_of_row<double>(const semantics::Call&, DType, const Row&, std::span<double>);
template void scores_of_row<float>(const semantics::Call&, DType, const Row&, std::span<float>);

double oracle_row(const semantics::Call& call, DType dtype, const Row& row, std::span<double> out,
                  std::span<double> scores) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const semantics::Sequence& sequence = row.sequence;
  const Index head = row.head;
  scores = scores.first(static_cast<std::size_t>(sequence.kv_len));
  scores_of_row<double>(call, dtype, row, scores);

  // Subtracting the largest exponent from all of them changes nothing but keeps e^s in range.
  const double sink = call.sinks ? call.sinks[head] : -infinity;
  double largest = sink;
  for (const double s : scores) {
    if (std::isnan(s) || s > largest) largest = s;
    if (std::isnan(largest)) break;
  }
  if (std::isnan(largest) || largest == infinity) {  // NaN, and inf / inf
    std::ranges::fill(out, std::numeric_limits<double>::quiet_NaN());
    return largest;
  }
  std::ranges::fill(out, 0.0);
  if (largest == -infinity) return largest;  // sees nothing

  double sum = std::exp(sink - largest);
  const semantics::DropoutStream dropout =
      semantics::dropout_stream(call.dropout, sequence.index, head);
  with_element_type(dtype, [&](auto type) {
    for (Index key = 0; key < sequence.kv_len; ++key) {
      const double s = scores[static_cast<std::size_t>(key)];
      if (s == -infinity) continue;
      const double weight = std::exp(s - largest);
      const auto* v =
          static_cast<const decltype(type)*>(call.v) +
          semantics::row_offset(call.v_stride, semantics::key_place(call, sequence, key),
                                semantics::kv_head_of(call, head));
      sum += weight;
      if (!semantics::keeps(dropout, row.query, key)) continue;
      for (std::size_t d = 0; d < out.size(); ++d) out[d] += weight * double(to_float(v[d]));
    }
  });
  const double kept_scale = semantics::kept_scale<double>(call.dropout);
  for (double& value : out) value *= kept_scale / sum;
  return largest + std::log(sum);
}

}  // namespace rapt
