#include "src/verify/reference.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <thread>

#include <fmt/format.h>
#include "src/core/call.hpp"
#include "src/core/layout.hpp"
#include "src/verify/random.hpp"
#include "src/verify/rounding_model.hpp"

namespace rapt::verify {

using semantics::Index;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
// Multiplications of the oracle that are worth other threads.
constexpr double much_work = 2e6;
// A sum over fewer elements than this says little about all of them.
constexpr double many_elements = 1000;

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

// The error, squared, of the plain computation of docs/numerics.md: scores in f32, weights rounded
// to the element type, sums in f32, one rounding at the end.
double plain_error_squared(const Problem& p, const semantics::Call& call, const Row& row,
                           const std::vector<double>& expected) {
  std::vector<float> scores(static_cast<std::size_t>(row.sequence.kv_len));
  scores_of_row<float>(call, p.dtype, row, scores);
  float row_max = call.sinks ? call.sinks[row.head] : -std::numeric_limits<float>::infinity();
  for (const float score : scores) row_max = std::max(row_max, score);
  std::vector<float> sums(expected.size());
  float row_sum = call.sinks ? std::exp(call.sinks[row.head] - row_max) : 0;
  const semantics::DropoutStream dropout =
      semantics::dropout_stream(call.dropout, row.sequence.index, row.head);
  const float kept_scale = semantics::kept_scale<float>(call.dropout);
  with_element_type(p.dtype, [&](auto type) {
    for (Index key = 0; key < row.sequence.kv_len; ++key) {
      const float score = scores[static_cast<std::size_t>(key)];
      if (score == -std::numeric_limits<float>::infinity()) continue;
      const float weight = std::exp(score - row_max);
      const float stored = rounded(p.dtype, weight);
      row_sum += weight;
      if (!semantics::keeps(dropout, row.query, key)) continue;
      const auto* v =
          static_cast<const decltype(type)*>(call.v) +
          semantics::row_offset(call.v_stride, semantics::key_place(call, row.sequence, key),
                                semantics::kv_head_of(call, row.head));
      for (std::size_t d = 0; d < sums.size(); ++d) sums[d] += stored * to_float(v[d]);
    }
  });
  double result = 0;
  for (std::size_t d = 0; d < sums.size(); ++d) {
    const double plain = row_sum > 0 ? rounded(p.out_dtype, kept_scale * sums[d] / row_sum) : 0;
    result += (plain - expected[d]) * (plain - expected[d]);
  }
  return result;
}

// Dims in which some value that a row of the sequence may see is not finite, which may reach the
// sequence's other rows.
class Unbounded {
 public:
  Unbounded(const Problem& p, const semantics::Call& call) : problem_(p), call_(call) {}

  bool operator()(const Row& row, std::size_t dim) {
    const Index kv_head = semantics::kv_head_of(call_, row.head);
    if (row.sequence.index != sequence_ || kv_head != kv_head_) look(row.sequence, kv_head);
    return dims_[dim];
  }

 private:
  void look(const semantics::Sequence& sequence, Index kv_head) {
    sequence_ = sequence.index;
    kv_head_ = kv_head;
    dims_.assign(static_cast<std::size_t>(problem_.v_dim), false);
    const semantics::KeyRanges keys = semantics::visible_to_some(
        call_.window, sequence.offset, sequence.offset + sequence.q_len - 1, sequence.kv_len);
    for (Index key = 0; key < sequence.kv_len; ++key) {
      if (!semantics::holds(keys, key)) continue;
      const Index at = semantics::row_offset(call_.v_stride,
                                             semantics::key_place(call_, sequence, key), kv_head);
      for (std::size_t d = 0; d < dims_.size(); ++d) {
        if (!std::isfinite(element(call_.v, problem_.dtype, at + static_cast<Index>(d))))
          dims_[d] = true;
      }
    }
  }

  const Problem& problem_;
  const semantics::Call& call_;
  Index sequence_ = -1, kv_head_ = -1;
  std::vector<bool> dims_;
};

// Sums over all rows whose results are finite.
struct Whole {
  double error_squared = 0, norm_squared = 0, bound_squared = 0, plain_squared = 0;
  double along = 0;  // error times out
  double firm = 0, variance = 0, rounding = 0, rows = 0, elements = 0;
  double vanishing = 0;              // what a step near 0 in every element would do to `along`
  std::array<double, 2> alike = {};  // the first of RowBounds::alike

  void add(const Reference::Expected& expected, double row_error_squared, double row_along) {
    const RowBounds& bounds = expected.bounds;
    error_squared += row_error_squared;
    norm_squared += bounds.norm_squared;
    bound_squared += bounds.row * bounds.row;
    plain_squared += expected.plain_error_squared;
    along += row_along;
    firm += bounds.firm;
    variance += bounds.variance;
    rounding += bounds.rounding;
    ++rows;
    elements += double(bounds.out.size());
    for (std::size_t i = 0; i < alike.size(); ++i) alike[i] += bounds.alike[i];
  }
  double relative(double squared) const {
    return norm_squared > 0 ? std::sqrt(squared / norm_squared) : 0;
  }
};

// Rows of the same query, whose weights may round alike.
double rows_alike(const Problem& p, double rows) {
  double result = p.q[1] == 0 ? double(p.varlen ? p.total_q : p.q_len) : 1;
  if (p.q[0] == 0 && !p.varlen) result *= double(p.batch);
  if (p.q[2] == 0) result *= double(p.heads);
  return std::clamp(result, 1.0, std::max(rows, 1.0));
}

// What hides in every row alike: a scale or a sum that is off a little, and results that are right
// row by row but worse than the plain computation's.
void check_whole(const Problem& p, const Whole& whole, Checks& checks) {
  if (whole.norm_squared == 0) return;
  const bool tf32 = p.dtype == DType::f32 && p.tf32;
  const double unit = tf32 ? 0x1p-11 : unit_roundoff(p.dtype);
  if (whole.elements >= many_elements) {
    const double variance = whole.variance * rows_alike(p, whole.rows);
    const double likely = std::max({4 * std::sqrt(variance), 2 * std::abs(whole.alike[0]),
                                    2 * std::abs(whole.alike[1])}) +
                          std::abs(whole.rounding);
    const double always = tf32 ? unit / 2 : std::max(unit / 8, 32 * unit_roundoff(DType::f32));
    const double allowed = always + (whole.firm + whole.vanishing + likely) / whole.norm_squared;
    const double projection = std::abs(whole.along) / whole.norm_squared;
    checks.at_most(&Shares::whole, projection, allowed, [&] {
      return fmt::format("out as a whole is off by {:.3g} of itself; {:.3g} is allowed",
                         whole.along / whole.norm_squared, allowed);
    });
  }
  if (p.dtype != DType::f32) {
    const double plain = std::sqrt(whole.plain_squared);
    const double allowed = std::max(2 * plain, 2 * unit * std::sqrt(whole.norm_squared)) +
                           smallest_step(p.out_dtype) * std::sqrt(whole.elements);
    checks.at_most(&Shares::plain, std::sqrt(whole.error_squared), allowed, [&] {
      return fmt::format(
          "the relative error of out is {:.3g}, that of the plain computation {:.3g}",
          whole.relative(whole.error_squared), whole.relative(whole.plain_squared));
    });
  }
}

}  // namespace

void Shares::take_larger(const Shares& other) {
  for (double Shares::*kind :
       {&Shares::element, &Shares::row, &Shares::lse, &Shares::whole, &Shares::plain})
    this->*kind = std::max(this->*kind, other.*kind);
}

Reference::Reference(const Data& data, std::int64_t most_rows, std::uint64_t seed)
    : data_(data), call_(make_call(data.problem(), data.on_host())) {
  const Problem& p = data.problem();
  if (p.operation == Operation::backward) {
    gradients_.emplace(data, most_rows, seed);
    return;
  }
  const std::vector<Row> rows = rows_of(p, call_, most_rows, seed);
  rows_.resize(rows.size());
  std::atomic<std::size_t> next = 0;
  const auto fill = [&] {
    for (std::size_t i = next++; i < rows.size(); i = next++) rows_[i] = expected(rows[i]);
  };
  const double work = double(rows.size()) * double(p.kv_len) * double(p.qk_dim + p.v_dim);
  std::vector<std::thread> others;
  for (int i = 1; i < Device::cpu().threads && work > much_work; ++i) others.emplace_back(fill);
  fill();
  for (std::thread& other : others) other.join();
}

Reference::Expected Reference::expected(const Row& row) const {
  const Problem& p = data_.problem();
  Expected result = {row, bounds_of(p, call_, row)};
  if (p.dtype != DType::f32)
    result.plain_error_squared = plain_error_squared(p, call_, row, result.bounds.out);
  return result;
}

Comparison Reference::compare(const Results& results) const {
  if (gradients_) return gradients_->compare(results);
  const Problem& p = data_.problem();
  const std::vector<std::byte>& out = results.at("out");
  const double step = smallest_step(p.out_dtype);
  Comparison result;
  Checks checks(result);
  Unbounded unbounded(p, call_);
  Whole whole;
  for (const Expected& expected : rows_) {
    const semantics::Sequence& sequence = expected.row.sequence;
    const Index head = expected.row.head, query = expected.row.query;
    const RowBounds& bounds = expected.bounds;
    const semantics::Place place = semantics::query_place(call_, sequence, query);
    const Index at = semantics::row_offset(call_.out_stride, place, head);
    const auto sentence = [&](std::size_t d, double got, const std::string& allowed) {
      return fmt::format(
          "out[sequence {}, query {}, head {}, dim {}] is {:.9g}, the oracle says "
          "{:.9g}: {}",
          sequence.index, query, head, d, got, bounds.out[d], allowed);
    };
    double row_error = 0, along = 0;
    bool finite = true;
    for (std::size_t d = 0; d < bounds.out.size(); ++d) {
      const double got = element(out.data() + data_.memory("out").front(), p.out_dtype,
                                 at + static_cast<Index>(d));
      const double want = bounds.out[d], error = std::abs(got - want);
      // Infinities inside q and k may end as NaN, and so may what meets a v that is not finite.
      const bool may_be_anything = !bounds.in_range || std::isnan(bounds.lse);
      finite = finite && std::isfinite(want) && std::isfinite(got);
      if (overflows(p.out_dtype, want, bounds.allowed[d], got)) continue;  // Z may be 256
      // Dropout may drop the very pair that makes lse infinite, and leave weights of zero.
      const bool may_be_zero = p.dropout > 0 && bounds.lse == infinity && got == 0;
      if (!std::isfinite(want)) {
        checks.at_most(&Shares::element, std::isfinite(got) && !may_be_zero ? infinity : 0, 1,
                       [&] { return sentence(d, got, "it must not be finite"); });
      } else if (std::isfinite(got) || !(may_be_anything || unbounded(expected.row, d))) {
        checks.at_most(&Shares::element, error, bounds.allowed[d] + step, [&] {
          return sentence(
              d, got,
              fmt::format("off by {:.2g}, {:.2g} is allowed", error, bounds.allowed[d] + step));
        });
      }
      row_error += error * error;
      along += (got - want) * want;
      if (std::isfinite(want)) whole.vanishing += step * std::abs(want);
    }
    if (finite) {
      const double allowed = bounds.row + step * std::sqrt(double(bounds.out.size()));
      checks.at_most(&Shares::row, std::sqrt(row_error), allowed, [&] {
        return fmt::format(
            "out[sequence {}, query {}, head {}] is off by {:.3g} of its norm, {:.3g} is allowed",
            sequence.index, query, head, std::sqrt(row_error / bounds.norm_squared),
            allowed / std::sqrt(bounds.norm_squared));
      });
      whole.add(expected, row_error, along);
    }
    if (p.lse) {
      const auto* values =
          reinterpret_cast<const float*>(results.at("lse").data() + data_.memory("lse").front());
      const double got = values[semantics::lse_offset(call_, place, head)];
      const bool same = got == bounds.lse || (std::isnan(got) && std::isnan(bounds.lse)) ||
                        (std::isnan(got) && !bounds.in_range);
      const double error = same ? 0 : std::abs(got - bounds.lse);
      checks.at_most(&Shares::lse, error, bounds.lse_allowed, [&] {
        return fmt::format(
            "lse[sequence {}, head {}, query {}] is {:.9g}, the oracle says {:.9g}: {:.2g} is "
            "allowed",
            sequence.index, head, query, got, bounds.lse, bounds.lse_allowed);
      });
    }
  }
  check_whole(p, whole, checks);
  result.error = whole.relative(whole.error_squared);
  result.bound = whole.relative(whole.bound_squared);
  return result;
}

}  // namespace rapt::verify
