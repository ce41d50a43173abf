// The bounds of docs/numerics.md catch small errors: exact results with one thing wrong, of every
// element type. A mutant counts where it matters: where it moves the result as a whole by more than
// a quarter of the type's roundoff, or some row by more than two. Of the random problems where one
// does, one in a hundred may let it pass; a few more in bf16 and TF32, where the rounding of the
// weights of a few rows is as large.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "src/core/call.hpp"
#include "src/verify/generator.hpp"
#include "src/verify/random.hpp"
#include "src/verify/reference.hpp"

namespace rapt {
namespace {

using semantics::Index;
constexpr std::int64_t most_rows = 4000;
constexpr double infinity = std::numeric_limits<double>::infinity();

struct RowResult {
  std::vector<double> out;
  double lse;
};
using Results = std::vector<RowResult>;

// A problem with its data and what is right, from which mutants are made.
struct Original {
  verify::Data data;
  verify::Reference reference;
  semantics::Call call;
  verify::Random random;

  Original(const Problem& problem, std::uint64_t seed)
      : data(problem, Device::cpu(1), seed, verify::Fill::hostile),
        reference(data, most_rows, seed),
        call(make_call(problem, data.on_host())),
        random(seed) {}

  const Problem& problem() const { return data.problem(); }
  Results right() const {
    Results results;
    for (const auto& [row, bounds, plain] : reference.rows())
      results.push_back({bounds.out, bounds.lse});
    return results;
  }
  // As they are stored.
  Results rounded(Results results) const {
    for (RowResult& row : results) {
      row.lse = static_cast<float>(row.lse);
      for (double& value : row.out) {
        value = with_element_type(problem().out_dtype, [&](auto type) {
          return to_float(from_float<decltype(type)>(static_cast<float>(value)));
        });
      }
    }
    return results;
  }
  std::vector<double> scores_of(const Row& row) const {
    std::vector<double> scores(static_cast<std::size_t>(row.sequence.kv_len));
    scores_of_row<double>(call, problem().dtype, row, scores);
    return scores;
  }
  // The largest score of a row's keys if no terms of its dot products cancelled.
  double largest_pair(const Row& row) const {
    const DType dtype = problem().dtype;
    const Index q = semantics::row_offset(
        call.q_stride, semantics::query_place(call, row.sequence, row.query), row.head);
    const std::vector<double> scores = scores_of(row);
    double largest = 1;
    for (std::size_t j = 0; j < scores.size(); ++j) {
      if (scores[j] == -infinity) continue;
      const Index k = semantics::row_offset(
          call.k_stride, semantics::key_place(call, row.sequence, static_cast<Index>(j)),
          semantics::kv_head_of(call, row.head));
      double sum = std::abs(scores[j]);
      for (Index d = 0; d < call.qk_dim; ++d)
        sum += std::abs(call.scale * element(call.q, dtype, q + d) * element(call.k, dtype, k + d));
      largest = std::max(largest, sum);
    }
    return largest;
  }
  // Numbers everywhere, and no scores so large that their own rounding is what counts.
  bool is_ordinary() const {
    return std::ranges::all_of(reference.rows(), [&](const auto& expected) {
      const bool finite = std::ranges::all_of(expected.bounds.out,
                                              [](double value) { return std::isfinite(value); });
      return finite && largest_pair(expected.row) < 300;
    });
  }
  // The row's result if its scores were these, and key j's value that of value_of[j] (empty: its
  // own).
  RowResult with(const Row& row, const std::vector<double>& scores,
                 const std::vector<Index>& value_of = {}) const {
    RowResult result = {std::vector<double>(static_cast<std::size_t>(problem().v_dim)), 0};
    const double sink = call.sinks ? call.sinks[row.head] : -infinity;
    double largest = sink;
    for (const double score : scores) largest = std::max(largest, score);
    result.lse = largest;
    if (!std::isfinite(largest)) return result;
    double sum = std::exp(sink - largest);
    const semantics::DropoutStream dropout =
        semantics::dropout_stream(call.dropout, row.sequence.index, row.head);
    for (std::size_t j = 0; j < scores.size(); ++j) {
      const double weight = std::exp(scores[j] - largest);
      if (weight == 0) continue;
      sum += weight;
      if (!semantics::keeps(dropout, row.query, static_cast<Index>(j))) continue;
      const Index key = value_of.empty() ? static_cast<Index>(j) : value_of[j];
      const Index v =
          semantics::row_offset(call.v_stride, semantics::key_place(call, row.sequence, key),
                                semantics::kv_head_of(call, row.head));
      for (std::size_t d = 0; d < result.out.size(); ++d)
        result.out[d] += weight * element(call.v, problem().dtype, v + static_cast<Index>(d));
    }
    for (double& value : result.out) value *= semantics::kept_scale<double>(call.dropout) / sum;
    result.lse = largest + std::log(sum);
    return result;
  }
};

// Every row anew, with its scores changed.
Results with_scores(Original& original,
                    const std::function<void(Row, std::vector<double>&)>& change) {
  Results results;
  for (const auto& expected : original.reference.rows()) {
    std::vector<double> scores = original.scores_of(expected.row);
    change(expected.row, scores);
    results.push_back(original.with(expected.row, scores));
  }
  return results;
}

Results larger_out(Original& original) {
  Results results = original.right();
  for (RowResult& row : results)
    for (double& value : row.out) value *= 1.002;
  return results;
}
Results larger_scale(Original& original) {
  semantics::Call call = original.call;
  call.scale *= 1.004f;
  return with_scores(original, [&](const Row& row, std::vector<double>& scores) {
    scores_of_row<double>(call, original.problem().dtype, row, scores);
  });
}
Results last_key_dropped(Original& original) {
  return with_scores(original, [](const Row&, std::vector<double>& scores) {
    for (std::size_t j = scores.size(); j-- > 0;) {
      if (scores[j] == -infinity) continue;
      scores[j] = -infinity;
      return;
    }
  });
}
Results some_key_dropped(Original& original) {
  return with_scores(original, [&](const Row&, std::vector<double>& scores) {
    if (scores.empty()) return;
    scores[static_cast<std::size_t>(original.random.below(static_cast<Index>(scores.size())))] =
        -infinity;
  });
}
Results some_key_doubled(Original& original) {
  return with_scores(original, [&](const Row&, std::vector<double>& scores) {
    if (scores.empty()) return;
    scores[static_cast<std::size_t>(original.random.below(static_cast<Index>(scores.size())))] +=
        std::log(2.0);
  });
}
// The largest weight goes through the type once more, at another size.
Results weight_rounded_twice(Original& original) {
  if (original.problem().dtype == DType::f32) return original.right();
  return with_scores(original, [&](const Row&, std::vector<double>& scores) {
    const auto top = std::ranges::max_element(scores);
    if (top == scores.end() || !std::isfinite(*top)) return;
    const float third = with_element_type(original.problem().dtype, [](auto type) {
      return to_float(from_float<decltype(type)>(1.0f / 3));
    });
    *top += std::log(3.0 * third);
  });
}
// Where the scores' own rounding does not hide it.
Results larger_lse(Original& original) {
  Results results = original.right();
  for (std::size_t i = 0; i < results.size() && !original.problem().tf32; ++i) {
    if (24 * 0x1p-24 * original.largest_pair(original.reference.rows()[i].row) < 1e-5)
      results[i].lse += 1e-5;
  }
  return results;
}
Results neighbours_row(Original& original) {
  Results results = original.right();
  if (results.size() < 2) return results;
  const auto at =
      static_cast<std::size_t>(original.random.below(static_cast<Index>(results.size()) - 1));
  results[at].out = results[at + 1].out;
  return results;
}
// Four keys of one sequence have the values of four others.
Results stale_page(Original& original) {
  Results results = original.right();
  const auto& rows = original.reference.rows();
  if (rows.empty()) return results;
  const Index sequence =
      rows[static_cast<std::size_t>(original.random.below(static_cast<Index>(rows.size())))]
          .row.sequence.index;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i].row;
    constexpr Index page = 4;
    const Index pages = row.sequence.kv_len / page;
    if (row.sequence.index != sequence || pages < 2) continue;
    std::vector<Index> value_of(static_cast<std::size_t>(row.sequence.kv_len));
    for (std::size_t j = 0; j < value_of.size(); ++j) value_of[j] = static_cast<Index>(j);
    const auto stale = static_cast<std::size_t>(sequence % (pages - 1) * page);
    for (std::size_t j = stale; j < stale + page; ++j) value_of[j] += page;
    // What no row may attend to holds no numbers.
    const std::vector<double> scores = original.scores_of(row);
    for (std::size_t j = stale; j < stale + page; ++j)
      if (scores[j + page] == -infinity) value_of[j] = static_cast<Index>(j);
    results[i] = original.with(row, scores, value_of);
  }
  return results;
}

struct Moved {
  double whole = 0, row = 0, lse_alone = 0;
};

Moved moved(const Original& original, const Results& mutant) {
  const Results sound = original.rounded(original.right());
  Moved result;
  double along = 0, norm_squared = 0, elements = 0;
  for (std::size_t i = 0; i < mutant.size(); ++i) {
    const verify::RowBounds& right = original.reference.rows()[i].bounds;
    double row_squared = 0;
    for (std::size_t d = 0; d < right.out.size(); ++d) {
      const double error = mutant[i].out[d] - sound[i].out[d];
      row_squared += error * error;
      along += error * right.out[d];
    }
    norm_squared += right.norm_squared;
    elements += double(right.out.size());
    if (row_squared == 0 && std::isfinite(right.lse))
      result.lse_alone = std::max(result.lse_alone, std::abs(mutant[i].lse - sound[i].lse));
    if (right.size > 0) result.row = std::max(result.row, std::sqrt(row_squared) / right.size);
  }
  if (elements >= 1000 && norm_squared > 0) result.whole = std::abs(along) / norm_squared;
  return result;
}

// Whether the bounds let the mutant pass.
bool passes(const Original& original, const Results& mutant) {
  const verify::Data& data = original.data;
  verify::Results results = data.download();
  for (std::size_t i = 0; i < mutant.size(); ++i) {
    const Row& row = original.reference.rows()[i].row;
    const semantics::Place place = semantics::query_place(original.call, row.sequence, row.query);
    with_element_type(original.problem().out_dtype, [&](auto type) {
      auto* target =
          reinterpret_cast<decltype(type)*>(results.at("out").data() + data.memory("out").front()) +
          semantics::row_offset(original.call.out_stride, place, row.head);
      for (const double value : mutant[i].out)
        *target++ = from_float<decltype(type)>(static_cast<float>(value));
    });
    if (!original.problem().lse) continue;
    auto* lse = reinterpret_cast<float*>(results.at("lse").data() + data.memory("lse").front());
    lse[semantics::lse_offset(original.call, place, row.head)] = static_cast<float>(mutant[i].lse);
  }
  return original.reference.compare(results).fault.empty();
}

struct Mutant {
  const char* name;
  Results (*make)(Original&);
  bool of_lse = false;
};
constexpr Mutant mutants[] = {
    {"out times 1.002", larger_out},
    {"scale times 1.004", larger_scale},
    {"the last key dropped", last_key_dropped},
    {"a key dropped", some_key_dropped},
    {"a key counted twice", some_key_doubled},
    {"a weight rounded twice", weight_rounded_twice},
    {"lse plus 1e-5", larger_lse, true},
    {"a neighbour's row", neighbours_row},
    {"a stale page", stale_page},
};

struct Type {
  const char* name;
  DType dtype;
  bool tf32;
  double unit;
  int may_pass;  // of a thousand
};
void PrintTo(const Type& type, std::ostream* stream) { *stream << type.name; }

class Mutants : public testing::TestWithParam<Type> {};

TEST_P(Mutants, AreFoundWhereTheyMatter) {
  const Type type = GetParam();
  constexpr int problems = 150;
  struct Count {
    int matter = 0, pass = 0;
    std::string example;
  };
  std::vector<Count> counts(std::size(mutants));
  int sound = 0;
  for (std::uint64_t seed = 710000; sound < problems; ++seed) {
    Problem problem = verify::random_problem(seed, Backend::cpu);
    const double rows = double(problem.total_q) * double(problem.heads);
    if (problem.dtype != type.dtype || rows > most_rows || problem.flops() > 1e7) continue;
    problem.tf32 = type.tf32;
    Original original(problem, seed);
    if (!original.is_ordinary()) continue;
    ++sound;
    EXPECT_TRUE(passes(original, original.right())) << problem.to_string() << " seed " << seed;
    for (std::size_t i = 0; i < std::size(mutants); ++i) {
      const Results mutant = original.rounded(mutants[i].make(original));
      const Moved by = moved(original, mutant);
      const bool matters = by.whole > type.unit / 4 || by.row > 2 * type.unit ||
                           (mutants[i].of_lse && problem.lse && by.lse_alone > 5e-6);
      if (!matters) continue;
      ++counts[i].matter;
      if (!passes(original, mutant)) continue;
      ++counts[i].pass;
      counts[i].example += problem.to_string() + " seed " + std::to_string(seed) + " whole " +
                           std::to_string(by.whole / type.unit) + " row " +
                           std::to_string(by.row / type.unit) + "\n";
    }
  }
  int matter = 0, pass = 0;
  std::string examples;
  for (std::size_t i = 0; i < std::size(mutants); ++i) {
    matter += counts[i].matter;
    pass += counts[i].pass;
    examples += std::string(mutants[i].name) + "\n" + counts[i].example;
  }
  EXPECT_GT(matter, 600);
  EXPECT_LE(pass * 1000, type.may_pass * matter) << examples;
}

// Every row by the oracle, with the call changed.
Results of_call(const Original& original, const semantics::Call& call, double factor = 1) {
  Results results;
  for (const auto& expected : original.reference.rows()) {
    RowResult row = {std::vector<double>(static_cast<std::size_t>(call.v_dim)), 0};
    std::vector<double> scores(static_cast<std::size_t>(call.kv_len));
    row.lse = oracle_row(call, original.problem().dtype, expected.row, row.out, scores);
    for (double& value : row.out) value *= factor;
    results.push_back(row);
  }
  return results;
}

TEST_P(Mutants, OfDropoutAreFound) {
  const Type type = GetParam();
  for (const std::uint64_t seed : {720001u, 720002u, 720003u}) {
    Problem problem = Problem::parse("b2 h4/2 q40 kv70 d32 f32 causal dropout0.1 lse");
    problem.dtype = problem.kv_dtype = problem.out_dtype = type.dtype;
    problem.tf32 = type.tf32;
    problem.alignment = std::min<std::int64_t>(problem.alignment, 16);
    const Original original(problem, seed);
    if (!original.is_ordinary()) continue;
    const semantics::Call& call = original.call;
    EXPECT_TRUE(passes(original, of_call(original, call)));
    semantics::Call changed = call;
    changed.dropout = {};
    EXPECT_FALSE(passes(original, of_call(original, changed))) << "dropout forgotten";
    EXPECT_FALSE(passes(original, of_call(original, call, 230.0 / 256))) << "the divisor missing";
    if (type.unit < 0x1p-8) {  // bf16 does not know 0.17 % for sure
      EXPECT_FALSE(passes(original, of_call(original, call, 0.9 * 256 / 230)))
          << "the probability not rounded in the divisor";
    }
    const std::int64_t other_offset[2] = {call.dropout.seed[0], call.dropout.seed[1] + 1};
    changed.dropout = {other_offset, call.dropout.dropped};
    EXPECT_FALSE(passes(original, of_call(original, changed))) << "another pair's bit";
    changed.dropout = {call.dropout.seed, call.dropout.dropped + 1};
    EXPECT_FALSE(passes(original, of_call(original, changed, 229.0 / 256 * 256 / 230)))
        << "a few pairs more";
    Results normalised = original.right();  // by the sum of what is kept, and so lse
    for (std::size_t i = 0; i < normalised.size(); ++i) normalised[i].lse += std::log(230.0 / 256);
    EXPECT_FALSE(passes(original, normalised)) << "lse of what is kept";
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Mutants,
                         testing::Values(Type{"f32", DType::f32, false, 0x1p-24, 10},
                                         Type{"tf32", DType::f32, true, 0x1p-11, 25},
                                         Type{"f16", DType::f16, false, 0x1p-11, 10},
                                         Type{"bf16", DType::bf16, false, 0x1p-8, 35}),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace rapt
