#include "src/verify/row_bounds.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/core/call.hpp"
#include "src/verify/rounding_model.hpp"

namespace rapt::verify {

using semantics::Index;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// Whether a result of 16 bits lies halfway between two numbers, but for what it may be off by, as
// the mean of two values does: it may go either way, and in all rows the same one.
bool is_tie(double unit, double out, double rounding, double off) {
  if (unit <= f32_unit || out == 0) return false;
  const double half_step = unit * std::exp2(std::floor(std::log2(std::abs(out))));
  return std::abs(rounding) + std::min(off, half_step / 8) >= half_step;
}

// What the keys of a row add up to.
class Sums {
 public:
  // `out`: the row's result, 0 where it is not finite.
  Sums(const Row& row, double largest, const std::vector<double>& out)
      : out_(out),
        weighed_(out.size()),
        firm_(out.size()),
        weights_(out.size()),
        moved_(out.size()),
        moved_squared_(out.size()),
        scores_(out.size()),
        grown_(out.size()),
        low_(out.size()),
        high_(out.size()) {
    // A reference is the largest exponent of 2, or the next whole number, or any: multiples of an
    // irrational number lie anywhere between two powers of two, in each row elsewhere.
    const double exponent = largest / std::log(2.0);
    const double number = double(row.sequence.index + 3 * row.head + 7 * row.query + 1);
    const double any = 0.6180339887 * number;
    places_ = {1, std::exp2(exponent - std::ceil(exponent)), 1 - (any - std::floor(any)) / 2};
  }

  // A key of that normalised weight; `top` is the largest. v: 1 / (1 − p) times the value with
  // dropout, 0 where the pair is dropped.
  void add(const Roundings& roundings, double weight, double top, const ScoreError& error,
           const std::vector<double>& v, bool kept, RowBounds& row) {
    const double shifted = weight * std::expm1(std::min(error.firm, 700.0));
    const double summed = weight * sum_roundings * f32_unit +
                          std::min(weight, roundings.smallest * top);  // what is near 0 may vanish
    // A weight grows faster than its score: as a deviation counts what the largest one does.
    const double spread =
        weight * std::expm1(std::min(whole_deviations * error.deviation, 300.0)) / whole_deviations;
    double along = 0, apart = 0;  // v · out, |v − out|²
    for (std::size_t d = 0; d < v.size(); ++d) along += v[d] * out_[d];
    for (std::size_t d = 0; d < v.size(); ++d) {
      const double size = std::abs(v[d]), difference = std::abs(v[d] - out_[d]);
      apart += difference * difference;
      weighed_[d] += weight * size;
      firm_[d] += shifted * difference + summed * size;
      weights_[d] += weight * size * weight * size;
      const double moved = weight * (roundings.may_move ? std::max(size, difference) : size);
      moved_[d] += moved;
      moved_squared_[d] += moved * moved;
      scores_[d] += spread * difference * spread * difference;
      grown_[d] += weight * error.growth * (v[d] - out_[d]);
      low_[d] = std::min(low_[d], v[d]);
      high_[d] = std::max(high_[d], v[d]);
    }
    ++keys_;
    if (kept) ++kept_;
    sum_of_weights_ += weight;
    squares_of_weights_ += weight * weight;
    largest_spread_ = std::max(largest_spread_, spread * std::sqrt(apart));
    lse_firm_ += shifted + summed;
    lse_variance_ += spread * spread;
    lse_grown_ += weight * error.growth;
    lse_spread_ += spread;
    const double around = along - row.norm_squared;
    row.firm += shifted * std::abs(around);
    // The largest weight is a power of two, exactly, where the reference does not lag.
    const double rounding =
        weight < top ? deviation_of_rounding * roundings.weight * weight * along : 0;
    row.variance += rounding * rounding + spread * around * spread * around;
    if (!roundings.weights_alike() || weight == 0) return;
    for (std::size_t i = 0; i < row.alike.size(); ++i) {
      const double stored = places_[i] * weight / top;
      const double rounded = rounded_to(roundings.weight, roundings.smallest, stored);
      row.alike[i] += (rounded / stored - 1) * weight * along;
    }
  }

  void finish(const Roundings& roundings, RowBounds& row) const {
    const std::size_t dims = weighed_.size();
    const double norm = std::sqrt(row.norm_squared);
    double alike = 0;  // relatively
    for (const double each : row.alike) alike = std::max(alike, std::abs(each));
    if (norm > 0) alike /= row.norm_squared;
    // Along out, all dims of a weight's rounding go together.
    const double together = norm > 0 ? whole_deviations * std::sqrt(row.variance) / norm : 0;

    // Terms that are all equal round alike as they are added up; those that differ do not.
    const double equal_terms = std::min(equal_roundings, keys_ / 4) * f32_unit;
    const double same_sign = std::min(same_sign_roundings, keys_ / 4) * f32_unit;
    const auto equality = [](double count, double sum, double squares) {
      return squares > 0 ? sum * sum / (count * squares) : 0;
    };

    double firm = 0, weights_at_most = 0, weights = 0, terms = 0, scores = 0, results = 0,
           equal = 0;  // squared
    row.allowed.resize(dims);
    double cut_off_along = 0;
    for (std::size_t d = 0; d < dims; ++d) {
      const double out = std::abs(out_[d]);
      const double at_most = roundings.weight * moved_[d];
      const double deviation =
          deviation_of_rounding * roundings.weight * std::sqrt(moved_squared_[d]);
      // As TF32, equal weights round alike, and equal values are cut off alike.
      const double alike_as_tf32 =
          roundings.factors * equality(kept_, out, weights_[d]) * weighed_[d];
      const double of_weights = std::min(
          at_most,
          std::hypot(element_deviations * deviation, std::max(2 * alike * out, alike_as_tf32)));
      const double of_factors =
          std::max(2 * alike_as_tf32, std::min(roundings.factors * weighed_[d],
                                               element_deviations * deviation_of_rounding *
                                                   roundings.factors * std::sqrt(weights_[d])));
      const double of_scores = element_deviations * std::sqrt(scores_[d]);
      const double of_result = roundings.result * out;
      const double of_equal_terms = equal_terms * equality(kept_, out, weights_[d]) * weighed_[d];
      const double cut_off = cut_off_units * roundings.factors * grown_[d];
      const double surely = firm_[d] + of_equal_terms + same_sign * out + std::abs(cut_off);
      cut_off_along += cut_off * out_[d];
      row.allowed[d] =
          std::min(surely + of_weights + of_factors + of_scores, high_[d] - low_[d]) + of_result;

      firm += surely * surely;
      row.firm += of_equal_terms * out;
      weights_at_most += at_most * at_most;
      weights += moved_squared_[d];
      terms += weights_[d];
      scores += scores_[d];
      results += of_result * of_result;
      equal += alike_as_tf32 * alike_as_tf32;
      const double rounding = deviation_of_rounding * of_result * out;
      const double factors =
          deviation_of_rounding * roundings.factors * std::sqrt(weights_[d]) * out;
      row.variance += rounding * rounding + factors * factors;
      const double rounded = rounded_to(roundings.result, 0, out_[d]) - out_[d];
      if (is_tie(roundings.result, out_[d], rounded, surely))
        row.firm += std::abs(rounded * out_[d]);
      else
        row.rounding += rounded * out_[d];
    }
    row.firm += std::abs(cut_off_along);
    // The fewer dims there are, the more the length of a random error may vary.
    const double fewness = 3 / std::sqrt(double(std::max<std::size_t>(dims, 1)));
    const double likely = std::hypot((1.1 + fewness) * roundings.weight * std::sqrt(weights),
                                     std::max({together, 2 * alike * norm, std::sqrt(equal)}));
    const double of_weights = std::min(std::sqrt(weights_at_most), likely);
    const double of_factors =
        std::max(2 * std::sqrt(equal), std::min(1.0, deviation_of_rounding + fewness / 2) *
                                           roundings.factors * std::sqrt(weights));
    const double of_scores =
        std::hypot((1 + fewness) * std::sqrt(scores), whole_deviations * largest_spread_);
    const double of_result =
        std::min(1.0, deviation_of_rounding + fewness / 2) * std::sqrt(results);
    // A value is a number of the type, to which a result rounds back, or not, as its weight
    // rounded: the two go together.
    row.row = std::sqrt(firm) + of_weights + of_result + std::hypot(of_factors, of_scores);
    row.size = std::max(norm, std::sqrt(terms));
    row.lse_allowed =
        lse_firm_ + std::abs(cut_off_units * roundings.factors * lse_grown_) +
        equal_terms * equality(keys_, sum_of_weights_, squares_of_weights_) +
        std::max(element_deviations * std::sqrt(lse_variance_), whole_deviations * lse_spread_) +
        lse_roundings * f32_unit * std::max(1.0, std::abs(row.lse));
  }

 private:
  // Per dim: weights times |v|, what may be lost for sure, the sum of squares of weight times v,
  // what weights' roundings move and the sum of its squares, that of the scores' likely errors,
  // what larger dot products would do, and between what a result lies.
  std::vector<double> out_, weighed_, firm_, weights_, moved_, moved_squared_, scores_, grown_,
      low_, high_;
  std::array<double, 3> places_;  // of the largest weight, for RowBounds::alike
  double largest_spread_ = 0;     // that one key's score may give the row
  double lse_firm_ = 0, lse_variance_ = 0, lse_grown_ = 0, lse_spread_ = 0;
  double keys_ = 0, kept_ = 0, sum_of_weights_ = 0, squares_of_weights_ = 0;
};

}  // namespace

double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::f16: return 0x1p-11;
    case DType::bf16: return 0x1p-8;
    default: return f32_unit;
  }
}

double smallest_step(DType dtype) { return dtype == DType::f16 ? 0x1p-24 : 1e-30; }

RowBounds bounds_of(const Problem& p, const semantics::Call& call, const Row& row) {
  const semantics::Sequence& sequence = row.sequence;
  const Index head = row.head, query = row.query;
  const Roundings roundings(p);
  const auto dims = static_cast<std::size_t>(p.v_dim);
  RowBounds result;
  result.out.resize(dims);
  std::vector<double> scores(static_cast<std::size_t>(sequence.kv_len));
  result.lse = oracle_row(call, p.dtype, row, result.out, scores);

  const Index position = query + sequence.offset, kv_head = semantics::kv_head_of(call, head);
  const Index q_row =
      semantics::row_offset(call.q_stride, semantics::query_place(call, sequence, query), head);
  const double slope = call.alibi ? double(semantics::slope_of(call, sequence.index, head)) : 0;
  // What is not finite has no bound, and no part in those of other dims.
  const auto finite = [](double number) { return std::isfinite(number) ? number : 0; };
  std::vector<double> out = result.out;
  for (double& value : out) value = finite(value);
  for (const double value : out) result.norm_squared += value * value;

  double largest = call.sinks ? double(call.sinks[head]) : -infinity;
  for (const double score : scores) largest = std::max(largest, score);
  const double top = std::exp(largest - result.lse);  // the largest weight, normalised

  const semantics::DropoutStream dropout =
      semantics::dropout_stream(call.dropout, sequence.index, head);
  const double kept_scale = semantics::kept_scale<double>(call.dropout);
  Sums sums(row, largest, out);
  with_element_type(p.dtype, [&](auto type) {
    using Element = decltype(type);
    std::vector<double> v(dims);
    for (Index key = 0; key < sequence.kv_len; ++key) {
      if (!semantics::in_window(call.window, position, key, sequence.kv_len) ||
          !mask_at(call, sequence.index, head, query, key))
        continue;
      const semantics::Place place = semantics::key_place(call, sequence, key);
      const PairSize size = size_of_pair(roundings, static_cast<const Element*>(call.q) + q_row,
                                         static_cast<const Element*>(call.k) +
                                             semantics::row_offset(call.k_stride, place, kv_head),
                                         call.qk_dim, call.scale);
      result.in_range = result.in_range && std::isfinite(size.absolute);
      const double score = scores[static_cast<std::size_t>(key)];
      if (score == -infinity) continue;
      const double bias = bias_at<Element>(call, sequence.index, head, query, key);
      const ScoreError error = error_of_score(call, size, score, bias,
                                              slope * std::abs(double(position - key)), largest);
      const auto* stored = static_cast<const Element*>(call.v) +
                           semantics::row_offset(call.v_stride, place, kv_head);
      const bool kept = semantics::keeps(dropout, query, key);
      for (std::size_t d = 0; d < dims; ++d)
        v[d] = kept ? kept_scale * finite(to_float(stored[d])) : 0;
      sums.add(roundings, std::exp(score - result.lse), top, error, v, kept, result);
    }
  });
  sums.finish(roundings, result);
  return result;
}

}  // namespace rapt::verify
