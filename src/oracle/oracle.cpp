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

template <class Real>
void scores_of_row(const semantics::Call& call, DType dtype, const Row& row,
                   std::span<Real> scores) {
  const auto& [sequence, head, query] = row;
  const Index kv_head = semantics::kv_head_of(call, head);
  const Index position = query + sequence.offset;
  const Index q_row =
      semantics::row_offset(call.q_stride, semantics::query_place(call, sequence, query), head);
  const Real slope = call.alibi ? Real(semantics::slope_of(call, sequence.index, head)) : Real(0);
  const semantics::Scoring<Real> scoring = {Real(call.scale), Real(call.softcap), slope};

  for (Index key = 0; key < sequence.kv_len; ++key) {
    Real& score = scores[static_cast<std::size_t>(key)];
    score = -std::numeric_limits<Real>::infinity();
    if (!semantics::in_window(call.window, position, key, sequence.kv_len)) continue;
    if (!mask_at(call, sequence.index, head, query, key)) continue;

    const Index k_row =
        semantics::row_offset(call.k_stride, semantics::key_place(call, sequence, key), kv_head);
    Real dot = 0;
    for (Index d = 0; d < call.qk_dim; ++d) {
      dot += Real(element(call.q, dtype, q_row + d)) * Real(element(call.k, dtype, k_row + d));
    }
    const float bias = with_element_type(dtype, [&](auto type) {
      return bias_at<decltype(type)>(call, row.sequence.index, row.head, row.query, key);
    });
    score = semantics::score(scoring, dot, Real(bias), position, key);
  }
}

template void scores_of_row<double>(const semantics::Call&, DType, const Row&, std::span<double>);
template void scores_of_row<float>(const semantics::Call&, DType, const Row&, std::span<float>);

double oracle_row(const semantics::Call& call, DType dtype, const Row& row, std::span<double> out,
                  std::span<double> scores) {
  const auto& [sequence, head, query] = row;
  scores = scores.first(static_cast<std::size_t>(sequence.kv_len));
  scores_of_row<double>(call, dtype, row, scores);

  // Subtracting the largest exponent from all of them changes nothing but keeps e^s in range.
  const double sink = call.sinks ? call.sinks[head] : -std::numeric_limits<double>::infinity();
  double largest = sink;
  for (const double s : scores) largest = std::max(largest, s);
  std::ranges::fill(out, 0.0);
  if (largest == -std::numeric_limits<double>::infinity()) return largest;  // sees nothing

  double sum = std::exp(sink - largest);
  for (Index key = 0; key < sequence.kv_len; ++key) {
    const double s = scores[static_cast<std::size_t>(key)];
    if (s == -std::numeric_limits<double>::infinity()) continue;
    const double weight = std::exp(s - largest);
    const Index v_row =
        semantics::row_offset(call.v_stride, semantics::key_place(call, sequence, key),
                              semantics::kv_head_of(call, head));
    sum += weight;
    for (Index d = 0; d < call.v_dim; ++d)
      out[static_cast<std::size_t>(d)] += weight * element(call.v, dtype, v_row + d);
  }
  for (double& value : out) value /= sum;
  return largest + std::log(sum);
}

}  // namespace rapt
