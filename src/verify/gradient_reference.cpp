#include "src/verify/gradient_reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <fmt/format.h>
#include "src/core/call.hpp"
#include "src/verify/random.hpp"
#include "src/verify/reference.hpp"
#include "src/verify/rounding_model.hpp"

namespace rapt::verify {

using semantics::Index;
using semantics::KeyRanges;

namespace {

// Multiplications that looking at every pair may take.
constexpr double most_work = 3e8;
// A sum over fewer elements than this says little about all of them.
constexpr double many_elements = 1000;
// In units of f32's roundoff: e^x, and what a quotient, a difference and products add.
constexpr double weight_roundings = 16;
// And what f32 on tensor cores leaves out of every product, all of one sign: the product of two low
// parts, 2⁻²⁰. Forward's sum of weights makes up for it, but these weights come from the given lse.
constexpr double left_out_roundings = 16;
// Terms that are added up one after another; sums of so many then go on as one.
constexpr double terms_of_a_tile = 64;
// Sums of f32 that come near its end may leave it, before they are multiplied by a scale.
constexpr double near_end_of_f32 = 1e36;
// A score that may be off by more than this leaves nothing to compare.
constexpr double hopeless = 40;

// A number with what it may be off by: for sure, by roundings to fewer bits (as a variance), and by
// what else is random.
struct Uncertain {
  double value = 0, firm = 0, rounded = 0, variance = 0;
  // What rounding takes from this very value, with its sign: equal ones lose the same. Of Z P in
  // two ways, with Z there before the rounding and after it.
  std::array<double, 2> lost = {};
};

// The coefficients of one pair.
struct Coefficients {
  Uncertain weight, score, product;  // Z P, dS, dX · scale
  bool in_range = true;
};

double square(double number) { return number * number; }

class Model {
 public:
  explicit Model(const BackwardCall& backward)
      : backward_(backward),
        roundings_(backward.problem),
        dot_roundings_(dot_roundings +
                       (backward.problem.dtype == DType::f32 ? left_out_roundings : 0)),
        // dout of more bits than the element type may be rounded to it.
        dout_unit_(backward.problem.out_dtype == backward.problem.dtype
                       ? 0
                       : unit_roundoff(backward.problem.dtype)) {}

  const Roundings& roundings() const { return roundings_; }

  Coefficients operator()(const GradientRow& row, const GradientKey& key) const {
    const PairGradient pair = pair_gradient(backward_, row, key);
    Coefficients result;
    if (!pair.visible) return result;
    const semantics::Call& call = backward_.call;
    const PairSize dot =
        size_of_pair(roundings_, row.q.data(), key.k.data(), call.qk_dim, call.scale);
    const PairSize dout_v = size_of_pair(roundings_, row.dout.data(), key.v.data(), call.v_dim, 1);
    const double slope_term = row.slope * std::abs(double(row.position() - key.key));
    const double before_bias =
        call.softcap > 0 ? call.softcap * std::tanh(pair.dot / call.softcap) : pair.dot;
    const double bias = pair.score - before_bias + slope_term;
    const ScoreError error =
        error_of_score(call, dot, pair.score, bias, slope_term, row.lse, dot_roundings_);
    const double cut_off = cut_off_units * roundings_.factors;
    const double of_score =
        std::expm1(std::min(error.firm + cut_off * std::abs(error.growth), 700.0)) +
        weight_roundings * f32_unit;
    const double deviation = std::expm1(std::min(4 * error.deviation, 300.0)) / 4;
    // In f16, a dS that it has no number for may become infinite: users scale their losses.
    const double most = backward_.problem.dtype == DType::f16 ? beyond_f16 / 2 : near_end_of_f32;
    result.in_range = std::isfinite(pair.weight) && std::isfinite(pair.of_score) &&
                      of_score < std::exp(hopeless) && deviation < std::exp(hopeless) &&
                      std::abs(pair.of_score) < most;

    // Z P: rounded to the element type, or to TF32, before it meets dout; Z may come later. What is
    // dropped may not be a number.
    const double kept_weight = pair.kept == 0 ? 0 : pair.kept * pair.weight;
    if (kept_weight != 0) {
      result.weight = {
          kept_weight,
          kept_weight * of_score + pair.kept * std::min(pair.weight, roundings_.smallest),
          square(rounding() * kept_weight),
          square(kept_weight * deviation),
          {lost(kept_weight), pair.kept * lost(pair.weight)}};
    }

    // dS = P (Z dout · v − D).
    const double of_dout_v =
        pair.kept * (dot_roundings_ * f32_unit * dout_v.absolute + cut_off * std::abs(dout_v.dot));
    const double of_delta = dot_roundings * f32_unit * row.delta_absolute;
    const double of_difference =
        4 * f32_unit * (pair.kept * std::abs(pair.dout_v) + std::abs(row.delta));
    Uncertain& score = result.score;
    score = {
        pair.of_score,
        pair.weight * (of_dout_v + of_delta + of_difference) + std::abs(pair.of_score) * of_score,
        0,
        square(kept_weight * dout_v.deviation) + square(pair.of_score * deviation) +
            square(kept_weight * dout_unit_ * deviation_of_rounding * dout_v.absolute)};

    // dX: under a cap, by a slope that is off as what it is taken at; rounded as P is.
    Uncertain& product = result.product;
    const double scale = std::abs(double(call.scale));
    const double slope = semantics_slope(pair);
    double slope_firm = 0, slope_deviation = 0;
    if (call.softcap > 0) {
      slope_firm =
          std::expm1(std::min(2 * dot_roundings_ * f32_unit * dot.absolute / call.softcap, 700.0)) +
          weight_roundings * f32_unit;
      slope_deviation = 2 * dot.deviation / call.softcap;
    }
    const double lost_of_dot = double(call.scale) * lost(pair.of_dot);
    product = {pair.of_dot * double(call.scale),
               scale * (score.firm * slope + std::abs(pair.of_dot) * slope_firm +
                        std::min(std::abs(pair.of_dot), roundings_.smallest)),
               square(scale * rounding() * pair.of_dot),
               square(scale) * (score.variance * square(slope) +
                                square(std::abs(pair.of_dot) * slope_deviation)),
               {lost_of_dot, lost_of_dot}};
    return result;
  }

  // Of one coefficient and one factor, as a standard deviation, relatively.
  double rounding() const {
    return deviation_of_rounding * std::hypot(roundings_.weight, roundings_.factors);
  }

 private:
  double lost(double number) const {
    if (!roundings_.weights_alike()) return 0;
    return rounded_to(roundings_.weight, roundings_.smallest, number) - number;
  }
  static double semantics_slope(const PairGradient& pair) {
    return pair.of_score == 0 ? 1 : std::abs(pair.of_dot / pair.of_score);
  }

  const BackwardCall& backward_;
  const Roundings roundings_;
  const double dot_roundings_, dout_unit_;
};

// Σ coefficient · vector. Terms must outlive it.
class Sum {
 public:
  Sum(const Roundings& roundings, std::size_t dims, bool rounds_coefficients)
      : unit_(rounds_coefficients ? std::max(roundings.weight, roundings.factors) : 0),
        all_(dims) {}

  void add(const Uncertain& coefficient, const double* vector) {
    if (coefficient.value == 0 && coefficient.firm == 0) return;
    ++count_;
    for (std::size_t d = 0; d < all_.size(); ++d) {
      Element& element = all_[d];
      const double x = vector[d], term = coefficient.value * x, size = std::abs(term);
      element.value += term;
      element.firm += coefficient.firm * std::abs(x) + sum_roundings * f32_unit * size;
      element.rounded += coefficient.rounded * x * x;
      element.variance += coefficient.variance * x * x;
      element.absolute += size;
      element.squares += size * size;
      for (std::size_t i = 0; i < 2; ++i) element.lost[i] += coefficient.lost[i] * x;
    }
    terms_.push_back({coefficient, vector});
  }

  GradientReference::Target finish(DType dtype, bool in_range) const {
    GradientReference::Target target = {};
    target.dtype = dtype;
    target.in_range = in_range;
    const double result_unit = unit_roundoff(dtype);
    const double equal_terms =
        std::min(equal_roundings, count_ / 4) + count_ / (4 * terms_of_a_tile);
    for (const Element& element : all_) {
      target.in_range = target.in_range && element.absolute < near_end_of_f32;
      // Terms of one size round alike; those that differ do not.
      const double equality =
          element.squares > 0 ? square(element.absolute) / (count_ * element.squares) : 0;
      const double alike = equality * element.absolute;
      const double firm =
          element.firm + f32_unit * equal_terms * alike +
          f32_unit * std::min(same_sign_roundings, count_ / 4) * std::abs(element.value);
      // Coefficients of few values, each of many terms, round alike value by value.
      const double lost = std::max(std::abs(element.lost[0]), std::abs(element.lost[1]));
      const double rounded = std::min(unit_ * element.absolute,
                                      std::hypot(element_deviations * std::sqrt(element.rounded),
                                                 std::max(unit_ * alike, 2 * lost)));
      const double allowed = firm + rounded + element_deviations * std::sqrt(element.variance) +
                             result_unit * std::abs(element.value) + smallest_step(dtype);
      target.expected.push_back(element.value);
      target.allowed.push_back(allowed);
      target.firm += (f32_unit * equal_terms + unit_) * alike * std::abs(element.value) +
                     smallest_step(dtype) * std::abs(element.value);
      target.variance +=
          square(deviation_of_rounding * result_unit * element.value * element.value);
      for (std::size_t i = 0; i < 2; ++i) target.lost[i] += element.lost[i] * element.value;
    }
    for (const auto& [coefficient, vector] : terms_) {
      double along = 0;
      for (std::size_t d = 0; d < all_.size(); ++d) along += vector[d] * all_[d].value;
      target.firm += coefficient.firm * std::abs(along);
      target.variance += (coefficient.rounded + coefficient.variance) * along * along;
    }
    return target;
  }

 private:
  struct Element : Uncertain {
    double absolute = 0, squares = 0;
  };
  double unit_;
  std::vector<Element> all_;
  std::vector<std::pair<Uncertain, const double*>> terms_;
  double count_ = 0;
};

constexpr double one = 1;

bool all_finite(const std::vector<double>& numbers) {
  return std::ranges::all_of(numbers, [](double number) { return std::isfinite(number); });
}

// Pairs of some rows and some keys of one kv head, and what is made of them.
class Block {
 public:
  Block(const BackwardCall& backward, const Model& model, const semantics::Sequence& sequence,
        Index kv_head, std::vector<GradientRow> rows, std::vector<GradientKey> keys)
      : backward_(backward),
        model_(model),
        sequence_(sequence),
        kv_head_(kv_head),
        rows_(std::move(rows)),
        keys_(std::move(keys)) {
    // What a mask hides is looked at all the same; what lies outside every window is not.
    const KeyRanges looked_at =
        semantics::visible_to_some(backward.call.window, sequence.offset,
                                   sequence.offset + sequence.q_len - 1, sequence.kv_len);
    for (const GradientKey& key : keys_) {
      if (sequence.q_len > 0 && semantics::holds(looked_at, key.key))
        in_range_ = in_range_ && all_finite(key.k) && all_finite(key.v);
    }
    pairs_.reserve(rows_.size() * keys_.size());
    for (const GradientRow& row : rows_) {
      in_range_ = in_range_ && all_finite(row.dout) && all_finite(row.q) &&
                  (std::isfinite(row.lse) || row.lse < 0) && std::isfinite(row.delta) &&
                  std::isfinite(row.slope);
      for (const GradientKey& key : keys_) {
        pairs_.push_back(model(row, key));
        in_range_ = in_range_ && pairs_.back().in_range;
      }
    }
  }

  bool in_range() const { return in_range_; }
  const std::vector<GradientRow>& rows() const { return rows_; }
  const std::vector<GradientKey>& keys() const { return keys_; }
  const Coefficients& pair(std::size_t row, std::size_t key) const {
    return pairs_[row * keys_.size() + key];
  }

  GradientReference::Target dq(std::size_t row) const {
    Sum sum(model_.roundings(), static_cast<std::size_t>(backward_.call.qk_dim), true);
    for (std::size_t key = 0; key < keys_.size(); ++key)
      sum.add(pair(row, key).product, keys_[key].k.data());
    const Row& at = rows_[row].row;
    const semantics::Place place = semantics::query_place(backward_.call, sequence_, at.query);
    GradientReference::Target target = sum.finish(backward_.problem.dq_dtype, in_range_);
    target.tensor = "dq";
    target.coordinates = {sequence_.index, at.query, at.head, 0};
    target.offset = semantics::row_offset(backward_.gradients.dq_stride, place, at.head);
    return target;
  }

  GradientReference::Target dk(std::size_t key) const {
    Sum sum(model_.roundings(), static_cast<std::size_t>(backward_.call.qk_dim), true);
    for (std::size_t row = 0; row < rows_.size(); ++row)
      sum.add(pair(row, key).product, rows_[row].q.data());
    return of_key("dk", key, sum.finish(backward_.problem.dk_dtype, in_range_),
                  backward_.gradients.dk_stride);
  }

  GradientReference::Target dv(std::size_t key) const {
    Sum sum(model_.roundings(), static_cast<std::size_t>(backward_.call.v_dim), true);
    for (std::size_t row = 0; row < rows_.size(); ++row)
      sum.add(pair(row, key).weight, rows_[row].dout.data());
    return of_key("dv", key, sum.finish(backward_.problem.dv_dtype, in_range_),
                  backward_.gradients.dv_stride);
  }

 private:
  GradientReference::Target of_key(std::string_view tensor, std::size_t key,
                                   GradientReference::Target target,
                                   const Index (&stride)[3]) const {
    const semantics::Place place = semantics::key_place(backward_.call, sequence_, keys_[key].key);
    target.tensor = tensor;
    target.coordinates = {sequence_.index, keys_[key].key, kv_head_, 0};
    target.offset = semantics::row_offset(stride, place, kv_head_);
    return target;
  }

  const BackwardCall& backward_;
  const Model& model_;
  const semantics::Sequence sequence_;
  const Index kv_head_;
  const std::vector<GradientRow> rows_;
  const std::vector<GradientKey> keys_;
  std::vector<Coefficients> pairs_;
  bool in_range_ = true;
};

// Keys that are stored but not in use: their gradients are zeros.
std::vector<GradientReference::Target> unused_keys(const BackwardCall& backward,
                                                   const semantics::Sequence& sequence,
                                                   Index kv_head) {
  std::vector<GradientReference::Target> result;
  const semantics::Gradients& g = backward.gradients;
  for (Index key = sequence.kv_len; key < semantics::stored_keys(backward.call, sequence); ++key) {
    const semantics::Place place = semantics::key_place(backward.call, sequence, key);
    const auto add = [&](std::string_view tensor, DType dtype, const Index(&stride)[3],
                         Index dims) {
      const std::vector<double> zeros(static_cast<std::size_t>(dims));
      result.push_back({tensor,
                        {sequence.index, key, kv_head, 0},
                        semantics::row_offset(stride, place, kv_head),
                        dtype,
                        true,
                        zeros,
                        zeros});
    };
    add("dk", backward.problem.dk_dtype, g.dk_stride, backward.call.qk_dim);
    add("dv", backward.problem.dv_dtype, g.dv_stride, backward.call.v_dim);
  }
  return result;
}

// dbias, dsinks and dalibi, whose sums go over sequences and heads.
class SharedSums {
 public:
  explicit SharedSums(const BackwardCall& backward, const Roundings& roundings)
      : backward_(backward), roundings_(roundings) {
    const semantics::Gradients& g = backward.gradients;
    const Index sequences = backward.problem.alibi_per_sequence ? backward.call.batch : 1;
    const auto numbers = [&](std::string_view tensor, DType dtype, Index count, auto&& offset_of) {
      for (Index i = 0; i < count; ++i) start(tensor, dtype, {i, 0, 0, 0}, offset_of(i));
    };
    if (g.dsinks)
      numbers("dsinks", DType::f32, backward.call.heads, [](Index head) { return head; });
    if (g.dalibi) {
      numbers("dalibi", DType::f32, sequences * backward.call.heads, [&](Index i) {
        return i / backward.call.heads * g.dalibi_stride + i % backward.call.heads;
      });
    }
    if (!g.dbias) return;
    for (Index b = 0; b < g.dbias_size[0]; ++b) {
      for (Index h = 0; h < g.dbias_size[1]; ++h) {
        for (Index q = 0; q < g.dbias_size[2]; ++q) {
          for (Index k = 0; k < g.dbias_size[3]; ++k) {
            start("dbias", backward.problem.dbias.dtype, {b, h, q, k},
                  semantics::pair_offset(g.dbias_stride, b, h, q, k));
          }
        }
      }
    }
  }

  void add(const Block& block) {
    const semantics::Gradients& g = backward_.gradients;
    for (std::size_t r = 0; r < block.rows().size(); ++r) {
      const GradientRow& row = block.rows()[r];
      const Row& at = row.row;
      if (g.dsinks) {
        const double value = sink_gradient(backward_, row);
        const double weight = row.delta == 0 ? 0 : std::abs(value / row.delta);
        const double of_weight =
            weight_roundings * f32_unit +
            2 * f32_unit * (std::abs(row.lse) + std::abs(double(backward_.call.sinks[at.head])));
        add("dsinks", {at.head, 0, 0, 0}, block.in_range(),
            {value,
             weight * dot_roundings * f32_unit * row.delta_absolute + std::abs(value) * of_weight,
             0, 0});
      }
      const Index sequence = backward_.problem.alibi_per_sequence ? at.sequence.index : 0;
      for (std::size_t k = 0; k < block.keys().size(); ++k) {
        const Uncertain& score = block.pair(r, k).score;
        const Index key = block.keys()[k].key;
        if (g.dalibi) {
          const double distance = -std::abs(double(row.position() - key));
          add("dalibi", {sequence * backward_.call.heads + at.head, 0, 0, 0}, block.in_range(),
              {score.value * distance, score.firm * -distance, 0,
               score.variance * square(distance)});
        }
        if (!g.dbias) continue;
        std::array<Index, 4> where = {at.sequence.index, at.head, at.query, key};
        for (std::size_t axis = 0; axis < 4; ++axis) {
          if (g.dbias_size[axis] == 1) where[axis] = 0;
        }
        add("dbias", where, block.in_range(), score);
      }
    }
  }

  void finish(std::vector<GradientReference::Target>& targets) const {
    for (const auto& [at, sum] : sums_) {
      GradientReference::Target target = sum.sum.finish(sum.dtype, sum.in_range);
      std::tie(target.tensor, target.coordinates) = at;
      target.offset = sum.offset;
      targets.push_back(std::move(target));
    }
  }

 private:
  using At = std::pair<std::string_view, std::array<Index, 4>>;
  struct One {
    Sum sum;
    DType dtype;
    Index offset;
    bool in_range = true;
  };

  void start(std::string_view tensor, DType dtype, const std::array<Index, 4>& at, Index offset) {
    sums_.emplace(At{tensor, at}, One{Sum(roundings_, 1, false), dtype, offset});
  }
  void add(std::string_view tensor, const std::array<Index, 4>& at, bool in_range,
           const Uncertain& term) {
    One& sum = sums_.at({tensor, at});
    sum.sum.add(term, &one);
    sum.in_range = sum.in_range && in_range;
  }

  const BackwardCall& backward_;
  const Roundings& roundings_;
  std::map<At, One> sums_;
};

// Rows whose numbers are the same, and so are their roundings.
double most_alike(const Problem& p) {
  double result = 1;
  for (const TensorRule& rule : tensor_rules()) {
    if (!rule.in_layout() || !rule.wanted(p) || rule.written(p.operation)) continue;
    const Shape shape = shape_of(p, rule);
    double alike = 1;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      if ((p.*rule.strides)[axis] == 0) alike *= double(std::max<std::int64_t>(shape[axis], 1));
    }
    result = std::max(result, alike);
  }
  return result;
}

}  // namespace

GradientReference::GradientReference(const Data& data, std::int64_t most_rows, std::uint64_t seed)
    : data_(data),
      backward_{data.problem(), make_call(data.problem(), data.on_host()),
                make_gradients(data.problem(), data.on_host())} {
  const Problem& p = data.problem();
  const semantics::Call& call = backward_.call;
  const Model model(backward_);
  const double work =
      double(p.total_q) * double(p.heads) * double(p.kv_len) * double(p.qk_dim + p.v_dim);
  if (work <= most_work) {
    SharedSums shared(backward_, model.roundings());
    for (Index b = 0; b < call.batch; ++b) {
      const semantics::Sequence sequence = semantics::sequence(call, b);
      for (Index kv_head = 0; kv_head < call.kv_heads; ++kv_head) {
        const Block block(backward_, model, sequence, kv_head,
                          gradient_rows(backward_, sequence, kv_head),
                          gradient_keys(backward_, sequence, kv_head));
        for (std::size_t row = 0; row < block.rows().size(); ++row)
          targets_.push_back(block.dq(row));
        for (std::size_t key = 0; key < block.keys().size(); ++key) {
          targets_.push_back(block.dk(key));
          targets_.push_back(block.dv(key));
        }
        shared.add(block);
        std::ranges::move(unused_keys(backward_, sequence, kv_head), std::back_inserter(targets_));
      }
    }
    shared.finish(targets_);
    return;
  }
  Random random(seed);
  const auto samples = std::max<std::int64_t>(1, std::min(most_rows / 64, std::int64_t{16}));
  for (std::int64_t i = 0; i < samples && p.batch > 0; ++i) {
    const semantics::Sequence sequence = semantics::sequence(call, random.below(p.batch));
    const Index head = random.below(p.heads), kv_head = semantics::kv_head_of(call, head);
    if (sequence.q_len == 0 || sequence.kv_len == 0) continue;
    const Row row = {sequence, head, random.below(sequence.q_len)};
    targets_.push_back(Block(backward_, model, sequence, kv_head, {gradient_row(backward_, row)},
                             gradient_keys(backward_, sequence, kv_head))
                           .dq(0));
    const Block of_key(backward_, model, sequence, kv_head,
                       gradient_rows(backward_, sequence, kv_head),
                       {gradient_key(backward_, sequence, kv_head, random.below(sequence.kv_len))});
    targets_.push_back(of_key.dk(0));
    targets_.push_back(of_key.dv(0));
  }
}

Comparison GradientReference::compare(const Results& results) const {
  struct Whole {
    double error_squared = 0, norm_squared = 0, allowed_squared = 0, along = 0, firm = 0,
           variance = 0, elements = 0;
    std::array<double, 2> lost = {};
  };
  std::map<std::string_view, Whole> whole;
  Comparison result;
  Checks checks(result);
  for (const Target& target : targets_) {
    const std::byte* memory =
        results.at(std::string(target.tensor)).data() + data_.memory(target.tensor).front();
    double row_error = 0, along = 0, norm = 0, allowed_squared = 0;
    bool finite = true;
    for (std::size_t d = 0; d < target.expected.size(); ++d) {
      const double got = element(memory, target.dtype, target.offset + static_cast<Index>(d));
      const double want = target.expected[d], error = std::abs(got - want);
      const auto sentence = [&](const std::string& allowed) {
        const auto& [a, b, c, e] = target.coordinates;
        return fmt::format("{}[{}, {}, {}, {}] is {:.9g}, the oracle says {:.9g}: {}",
                           target.tensor, a, b, c, e + static_cast<Index>(d), got, want, allowed);
      };
      finite = finite && std::isfinite(got) && std::isfinite(want) && target.in_range;
      if (!std::isfinite(want)) {
        const bool told = !std::isfinite(got);
        checks.at_most(&Shares::element, told ? 0 : std::numeric_limits<double>::infinity(), 1,
                       [&] { return sentence("it must not be finite"); });
      } else if (target.in_range && !overflows(target.dtype, want, target.allowed[d], got)) {
        checks.at_most(&Shares::element, error, target.allowed[d], [&] {
          return sentence(
              fmt::format("off by {:.2g}, {:.2g} is allowed", error, target.allowed[d]));
        });
      }
      row_error += error * error;
      along += (got - want) * want;
      norm += want * want;
      allowed_squared += square(target.allowed[d]);
    }
    if (!finite) continue;
    Whole& all = whole[target.tensor];
    all.error_squared += row_error;
    all.norm_squared += norm;
    all.allowed_squared += allowed_squared;
    all.along += along;
    all.firm += target.firm;
    all.variance += target.variance;
    for (std::size_t i = 0; i < 2; ++i) all.lost[i] += target.lost[i];
    all.elements += double(target.expected.size());
  }
  const Problem& p = data_.problem();
  const double unit = p.dtype == DType::f32 && p.tf32 ? tf32_unit : unit_roundoff(p.dtype);
  for (const auto& [tensor, all] : whole) {
    if (all.norm_squared == 0) continue;
    result.error = std::max(result.error, std::sqrt(all.error_squared / all.norm_squared));
    result.bound = std::max(result.bound, std::sqrt(all.allowed_squared / all.norm_squared));
    if (all.elements < many_elements) continue;
    const double always = std::max(unit / 8, 32 * f32_unit);
    const double likely = std::max({whole_deviations * std::sqrt(all.variance * most_alike(p)),
                                    2 * std::abs(all.lost[0]), 2 * std::abs(all.lost[1])});
    const double allowed = always + (all.firm + likely) / all.norm_squared;
    const double off = all.along / all.norm_squared;
    checks.at_most(&Shares::whole, std::abs(off), allowed, [&, name = tensor] {
      return fmt::format("{} as a whole is off by {:.3g} of itself; {:.3g} is allowed", name, off,
                         allowed);
    });
  }
  return result;
}

}  // namespace rapt::verify
