#include "src/oracle/pair_gradients.hpp"

#include <cmath>
#include <limits>

#include "src/core/call.hpp"
#include "src/semantics/score.hpp"

namespace rapt {

using semantics::Index;

namespace {

std::vector<double> numbers(const void* data, DType dtype, Index at, Index count) {
  std::vector<double> result(static_cast<std::size_t>(count));
  with_element_type(dtype, [&](auto type) {
    const auto* elements = static_cast<const decltype(type)*>(data) + at;
    for (double& number : result) number = double(to_float(*elements++));
  });
  return result;
}

double dot_product(const std::vector<double>& a, const std::vector<double>& b) {
  double sums[4] = {};
  for (std::size_t i = 0; i < a.size(); ++i) sums[i % 4] += a[i] * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

}  // namespace

GradientRow gradient_row(const BackwardCall& backward, const Row& row) {
  const Problem& p = backward.problem;
  const semantics::Call& call = backward.call;
  const semantics::Gradients& gradients = backward.gradients;
  const semantics::Place place = semantics::query_place(call, row.sequence, row.query);
  const auto at = [&](const Index(&stride)[3]) {
    return semantics::row_offset(stride, place, row.head);
  };
  GradientRow result = {row, {}, {}, 0, 0, 0, 0, {}};
  result.dropout = semantics::dropout_stream(call.dropout, row.sequence.index, row.head);
  result.q = numbers(call.q, p.dtype, at(call.q_stride), call.qk_dim);
  result.dout = numbers(gradients.dout, p.out_dtype, at(gradients.dout_stride), call.v_dim);
  result.lse = call.lse[semantics::lse_offset(call, place, row.head)];
  const auto out = numbers(call.out, p.out_dtype, at(call.out_stride), call.v_dim);
  result.delta = dot_product(result.dout, out);
  for (std::size_t d = 0; d < out.size(); ++d)
    result.delta_absolute += std::abs(result.dout[d] * out[d]);
  if (gradients.dlse) {
    const double dlse =
        gradients.dlse[semantics::lse_offset(gradients.dlse_stride, place, row.head)];
    result.delta -= dlse;
    result.delta_absolute += std::abs(dlse);
  }
  if (call.alibi) result.slope = semantics::slope_of(call, row.sequence.index, row.head);
  return result;
}

GradientKey gradient_key(const BackwardCall& backward, const semantics::Sequence& sequence,
                         Index kv_head, Index key) {
  const semantics::Call& call = backward.call;
  const semantics::Place place = semantics::key_place(call, sequence, key);
  const DType dtype = backward.problem.kv_dtype;
  return {key,
          numbers(call.k, dtype, semantics::row_offset(call.k_stride, place, kv_head), call.qk_dim),
          numbers(call.v, dtype, semantics::row_offset(call.v_stride, place, kv_head), call.v_dim)};
}

PairGradient pair_gradient(const BackwardCall& backward, const GradientRow& row,
                           const GradientKey& key) {
  const semantics::Call& call = backward.call;
  const semantics::Sequence& sequence = row.row.sequence;
  const Index head = row.row.head, query = row.row.query;
  PairGradient pair;
  if (!semantics::in_window(call.window, row.position(), key.key, sequence.kv_len) ||
      !mask_at(call, sequence.index, head, query, key.key))
    return pair;
  const double bias = with_element_type(backward.problem.dtype, [&](auto type) {
    return double(bias_at<decltype(type)>(call, sequence.index, head, query, key.key));
  });
  const semantics::Scoring<double> scoring = {call.scale, call.softcap, row.slope};
  const double product = dot_product(row.q, key.k);
  pair.dot = scoring.scale * product;
  pair.score = semantics::score(scoring, product, bias, row.position(), key.key);
  if (pair.score == -std::numeric_limits<double>::infinity()) return {};  // as if it were not there
  pair.visible = true;
  pair.weight = std::exp(pair.score - row.lse);
  pair.dout_v = dot_product(row.dout, key.v);
  if (semantics::keeps(row.dropout, query, key.key))
    pair.kept = semantics::kept_scale<double>(call.dropout);
  // What is dropped may not be a number.
  const double through_v = pair.kept == 0 ? 0 : pair.kept * pair.dout_v;
  pair.of_score = pair.weight * (through_v - row.delta);
  pair.of_dot = pair.of_score * semantics::cap_slope(scoring.softcap, pair.dot);
  return pair;
}

double sink_gradient(const BackwardCall& backward, const GradientRow& row) {
  const double sink = backward.call.sinks[row.row.head];
  if (sink == -std::numeric_limits<double>::infinity()) return 0;  // as if it were not there
  return -std::exp(sink - row.lse) * row.delta;
}

std::vector<GradientRow> gradient_rows(const BackwardCall& backward,
                                       const semantics::Sequence& sequence, Index kv_head) {
  const Index group = backward.call.heads / backward.call.kv_heads;
  std::vector<GradientRow> rows;
  for (Index head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    for (Index query = 0; query < sequence.q_len; ++query)
      rows.push_back(gradient_row(backward, {sequence, head, query}));
  }
  return rows;
}

std::vector<GradientKey> gradient_keys(const BackwardCall& backward,
                                       const semantics::Sequence& sequence, Index kv_head) {
  std::vector<GradientKey> keys;
  for (Index key = 0; key < sequence.kv_len; ++key)
    keys.push_back(gradient_key(backward, sequence, kv_head, key));
  return keys;
}

}  // namespace rapt
