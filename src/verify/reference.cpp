#include "src/verify/reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include "src/core/call.hpp"
#include "src/core/layout.hpp"
#include "src/verify/random.hpp"

namespace rapt::verify {

using semantics::Index;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// Distance from 1 to the next number.
double last_place(DType dtype) {
  switch (dtype) {
    case DType::f16: return 0x1p-10;
    case DType::bf16: return 0x1p-7;
    default: return 0x1p-23;
  }
}

// What may vanish: a unit in the last place of f16's subnormals; for the other types a number that
// no sum of interest notices, since weights below f32's smallest number are 0.
double smallest_step(DType dtype) { return dtype == DType::f16 ? 0x1p-24 : 1e-30; }

float rounded(DType dtype, float value) {
  return with_element_type(dtype,
                           [&](auto type) { return to_float(from_float<decltype(type)>(value)); });
}

// Every row of a problem, or about `most` of them drawn at random.
std::vector<Row> rows_of(const Problem& problem, const semantics::Call& call, std::int64_t most,
                         std::uint64_t seed) {
  std::vector<Row> rows;
  Random random(seed);
  const double share =
      double(most) / std::max(1.0, double(problem.total_q) * double(problem.heads));
  if (share < 1) {
    for (std::int64_t i = 0; i < most && problem.batch > 0; ++i) {
      const semantics::Sequence sequence = semantics::sequence(call, random.below(problem.batch));
      if (sequence.q_len == 0) continue;
      rows.push_back({sequence, random.below(problem.heads), random.below(sequence.q_len)});
    }
    return rows;
  }
  for (Index b = 0; b < problem.batch; ++b) {
    const semantics::Sequence sequence = semantics::sequence(call, b);
    for (Index head = 0; head < problem.heads; ++head) {
      for (Index query = 0; query < sequence.q_len; ++query)
        rows.push_back({sequence, head, query});
    }
  }
  return rows;
}

}  // namespace

Reference::Reference(const Data& data, std::int64_t most_rows, std::uint64_t seed)
    : data_(data), call_(make_call(data.problem(), data.on_host())) {
  for (const Row& row : rows_of(data.problem(), call_, most_rows, seed)) {
    rows_.push_back(expected(row));
    if (data.problem().dtype != DType::f32) measure_plain(rows_.back());
  }
}

Reference::Expected Reference::expected(const Row& row) {
  const Problem& p = data_.problem();
  Expected result = {row, std::vector<double>(static_cast<std::size_t>(p.v_dim)),
                     std::vector<double>(static_cast<std::size_t>(p.v_dim)), 0};
  std::vector<double> scores(static_cast<std::size_t>(row.sequence.kv_len));
  result.lse = oracle_row(call_, p.dtype, row, result.out, scores);
  largest_score_ = std::max(largest_score_, largest_on_the_way(row, scores));
  for (Index key = 0; key < row.sequence.kv_len; ++key) {
    const double score = scores[static_cast<std::size_t>(key)];
    if (score == -infinity) continue;
    const double weight = std::exp(score - result.lse);
    const Index at =
        semantics::row_offset(call_.v_stride, semantics::key_place(call_, row.sequence, key),
                              semantics::kv_head_of(call_, row.head));
    for (std::size_t d = 0; d < result.magnitude.size(); ++d) {
      result.magnitude[d] +=
          weight * std::abs(element(call_.v, p.dtype, at + static_cast<Index>(d)));
    }
  }
  return result;
}

// The largest of a row's scores, of its scaled dot products and of its slopes: what rounds as it is
// computed.
double Reference::largest_on_the_way(const Row& row, const std::vector<double>& scores) const {
  double largest = 0;
  semantics::Call dots_only = call_;
  dots_only.softcap = 0;
  dots_only.bias = nullptr;
  dots_only.alibi = nullptr;
  std::vector<double> dots = scores;
  if (call_.softcap > 0 || call_.bias || call_.alibi) {
    scores_of_row<double>(dots_only, data_.problem().dtype, row, dots);
  }
  for (std::size_t key = 0; key < scores.size(); ++key) {
    if (scores[key] == -infinity) continue;
    const Index distance = std::abs(row.query + row.sequence.offset - static_cast<Index>(key));
    const double slope =
        call_.alibi
            ? double(semantics::slope_of(call_, row.sequence.index, row.head)) * double(distance)
            : 0;
    largest = std::max({largest, std::abs(scores[key]), std::abs(dots[key]), std::abs(slope)});
  }
  return largest;
}

// Scaled dot products as if no two of their terms cancelled. It takes as long as the oracle.
double Reference::largest_before_cancelling() const {
  const Problem& p = data_.problem();
  double largest = 0;
  for (const Expected& expected : rows_) {
    const Row& row = expected.row;
    std::vector<double> scores(static_cast<std::size_t>(row.sequence.kv_len));
    scores_of_row<double>(call_, p.dtype, row, scores);
    const Index q = semantics::row_offset(
        call_.q_stride, semantics::query_place(call_, row.sequence, row.query), row.head);
    for (Index key = 0; key < row.sequence.kv_len; ++key) {
      if (scores[static_cast<std::size_t>(key)] == -infinity) continue;
      const Index k =
          semantics::row_offset(call_.k_stride, semantics::key_place(call_, row.sequence, key),
                                semantics::kv_head_of(call_, row.head));
      double sum = 0;
      for (Index d = 0; d < p.qk_dim; ++d)
        sum += std::abs(element(call_.q, p.dtype, q + d) * element(call_.k, p.dtype, k + d));
      largest = std::max(largest, std::abs(p.scale) * sum);
    }
  }
  return largest;
}

// The plain computation of docs/numerics.md: scores in f32, probabilities rounded to the element
// type, sums in f32, one rounding at the end.
void Reference::measure_plain(const Expected& expected) {
  const Problem& p = data_.problem();
  const Row& row = expected.row;
  std::vector<float> scores(static_cast<std::size_t>(row.sequence.kv_len));
  scores_of_row<float>(call_, p.dtype, row, scores);
  float row_max = call_.sinks ? call_.sinks[row.head] : -std::numeric_limits<float>::infinity();
  for (const float score : scores) row_max = std::max(row_max, score);
  std::vector<float> sums(static_cast<std::size_t>(p.v_dim));
  float row_sum = call_.sinks ? std::exp(call_.sinks[row.head] - row_max) : 0;
  for (Index key = 0; key < row.sequence.kv_len; ++key) {
    const float score = scores[static_cast<std::size_t>(key)];
    if (score == -std::numeric_limits<float>::infinity()) continue;
    const float weight = std::exp(score - row_max);
    const float probability = rounded(p.dtype, weight);
    row_sum += weight;
    const Index at =
        semantics::row_offset(call_.v_stride, semantics::key_place(call_, row.sequence, key),
                              semantics::kv_head_of(call_, row.head));
    for (std::size_t d = 0; d < sums.size(); ++d) {
      sums[d] +=
          probability * static_cast<float>(element(call_.v, p.dtype, at + static_cast<Index>(d)));
    }
  }
  for (std::size_t d = 0; d < sums.size(); ++d) {
    const double plain = row_sum > 0 ? rounded(p.out_dtype, sums[d] / row_sum) : 0;
    plain_error_squared_ += (plain - expected.out[d]) * (plain - expected.out[d]);
    norm_squared_ += expected.out[d] * expected.out[d];
  }
}

double Reference::f32_bound(double largest) const {
  if (data_.problem().tf32 && data_.problem().dtype == DType::f32)
    return 0x1p-10 * std::max(1.0, largest);
  return 4e-6 * std::max(1.0, largest / 16);
}

double Reference::bound(double largest) const {
  const DType dtype = data_.problem().dtype;
  if (dtype == DType::f32) return f32_bound(largest);
  const double plain = norm_squared_ > 0 ? std::sqrt(plain_error_squared_ / norm_squared_) : 0;
  return std::max(2 * plain, last_place(dtype));
}

Comparison Reference::compare(const std::vector<std::byte>& out,
                              const std::vector<std::byte>& lse) const {
  const Comparison result = compare(largest_score_, out, lse);
  // Whether that is because terms cancel is looked at only then. TF32's own roundings are larger.
  if (result.fault.empty() || (data_.problem().tf32 && data_.problem().dtype == DType::f32))
    return result;
  return compare(std::max(largest_score_, largest_before_cancelling() / 4), out, lse);
}

Comparison Reference::compare(double largest, const std::vector<std::byte>& out,
                              const std::vector<std::byte>& lse) const {
  const Problem& p = data_.problem();
  Comparison result;
  result.bound = bound(largest);
  // One element may be off by what rounding its weights and itself can do to it, whatever the
  // others cancel to.
  const double element_bound =
      (p.dtype == DType::f32 ? 0 : 2 * last_place(p.dtype)) + 8 * f32_bound(largest);
  const std::byte* data = out.data() + data_.out().front();
  double error_squared = 0, norm_squared = 0, elements = 0;
  double worst = 1;  // error over what is allowed
  for (const Expected& expected : rows_) {
    const semantics::Place place =
        semantics::query_place(call_, expected.row.sequence, expected.row.query);
    const Index at = semantics::row_offset(call_.out_stride, place, expected.row.head);
    for (std::size_t d = 0; d < expected.out.size(); ++d) {
      const double got = element(data, p.out_dtype, at + static_cast<Index>(d));
      const double want = expected.out[d];
      const double error = std::abs(got - want);
      const double allowed = element_bound * expected.magnitude[d] + smallest_step(p.dtype);
      if (worst < infinity && !(error <= worst * allowed)) {
        worst = std::isnan(error) ? infinity : error / allowed;
        result.fault = fmt::format(
            "out[sequence {}, query {}, head {}, dim {}] is {:.9g}, the oracle says {:.9g}: off by "
            "{:.2g}, {:.2g} is allowed",
            expected.row.sequence.index, expected.row.query, expected.row.head, d, got, want, error,
            allowed);
      }
      error_squared += error * error;
      norm_squared += want * want;
      elements += 1;
    }
    if (p.lse && result.fault.empty())
      result.fault = compare_lse(expected, lse, f32_bound(largest));
  }
  if (norm_squared > 0) result.error = std::sqrt(error_squared / norm_squared);
  const double allowed =
      result.bound * std::sqrt(norm_squared) + smallest_step(p.dtype) * std::sqrt(elements);
  if (result.fault.empty() && !(std::sqrt(error_squared) <= allowed)) {
    result.fault = fmt::format("the relative error of out is {:.3g}, {:.3g} is allowed",
                               result.error, result.bound);
  }
  return result;
}

std::string Reference::compare_lse(const Expected& expected, const std::vector<std::byte>& memory,
                                   double bound) const {
  const auto* values = reinterpret_cast<const float*>(memory.data() + data_.lse()->front());
  const semantics::Place place =
      semantics::query_place(call_, expected.row.sequence, expected.row.query);
  const double got = values[semantics::lse_offset(call_, place, expected.row.head)];
  const double want = expected.lse;
  const double allowed = bound * std::max(1.0, std::abs(want));
  if (got == want || std::abs(got - want) <= allowed) return "";
  return fmt::format(
      "lse[sequence {}, head {}, query {}] is {:.9g}, the oracle says {:.9g}: {:.2g} is allowed",
      expected.row.sequence.index, expected.row.head, expected.row.query, got, want, allowed);
}

}  // namespace rapt::verify
