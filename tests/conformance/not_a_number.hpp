// NaN, infinities and huge scores: a table of cases, and what IEEE arithmetic makes of each, for
// the kernels of any device.
//
// Expectations come from a plain computation in double here, not from the oracle, which is held to
// the same table. A row is NaN if a score of a key that it sees is, or its sink; a score of +inf
// makes its lse +inf; −inf is a key that is not there; nothing else reaches it.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "src/core/text.hpp"
#include "src/semantics/score.hpp"
#include "src/verify/data.hpp"
#include "src/verify/random.hpp"
#include "tests/conformance/plans.hpp"
#include "tests/unit/support.hpp"

namespace rapt::test {

struct SpecialValues {
  std::string name, problem;                     // without an element type
  std::function<void(const Arguments&)> change;  // of numbers between −1 and 1
};

inline constexpr float special_nan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float special_infinity = std::numeric_limits<float>::infinity();

// Elements of all positions for which chosen(position) holds.
template <class Chosen>
void set_where(const Tensor& tensor, float value, Chosen chosen) {
  for_each_position(tensor.size, [&](const Shape& at) {
    if (chosen(at)) set(tensor, at, value);
  });
}
template <class Visible>
void set_mask(const Tensor& tensor, Visible visible) {
  for_each_position(tensor.size, [&](const Shape& at) {
    static_cast<std::uint8_t*>(tensor.data)[index_of(tensor, at)] = visible(at);
  });
}
inline std::int64_t last_row(const Tensor& tensor) { return tensor.size[1] - 1; }

// Dot products of 2³⁰ · factor(key), exact in every element type.
template <class Factor>
void set_exact_scores(const Arguments& a, Factor factor) {
  for_each_position(a.q.size, [&](const Shape& at) { set(a.q, at, at[3] == 0 ? 0x1p15f : 0); });
  for_each_position(
      a.k.size, [&](const Shape& at) { set(a.k, at, at[3] == 0 ? 0x1p15f * factor(at[1]) : 0); });
}

inline std::vector<SpecialValues> special_values() {
  std::vector<SpecialValues> cases;
  // Several tiles or chunks of keys, one query, a few keys. Key 512 and those behind it are the
  // second chunk of kernels that split keys.
  for (const std::string size : {"h2/1 q20 kv300 d16", "h2/1 q1 kv600 d16", "h2/1 q3 kv11 d16"}) {
    const auto add = [&](const std::string& features, const std::string& name,
                         std::function<void(const Arguments&)> change) {
      cases.push_back({name, size + " lse" + features, std::move(change)});
    };
    add("", "a query's element is NaN", [](const Arguments& a) {
      set(a.q, {0, last_row(a.q), 0, 3}, special_nan);
    });
    add(" softcap30", "a query's element is NaN under a soft cap", [](const Arguments& a) {
      set(a.q, {0, last_row(a.q), 0, 3}, special_nan);
    });
    add("", "all keys are NaN",
        [](const Arguments& a) { set_where(a.k, special_nan, [](const Shape&) { return true; }); });
    add("", "the last seventh of the keys is NaN", [](const Arguments& a) {
      const std::int64_t first = a.k.size[1] - std::max<std::int64_t>(1, a.k.size[1] * 88 / 600);
      set_where(a.k, special_nan, [&](const Shape& at) { return at[1] >= first; });
    });
    for (const char* features :
         {"", " causal", " window2 offset1", " alibi sinks", " bias:hqk", " mask:hqk"}) {
      add(features, "the first key is NaN", [](const Arguments& a) {
        set(a.k, {0, 0, 0, 1}, special_nan);
      });
      add(features, "the last key is NaN", [](const Arguments& a) {
        set(a.k, {0, last_row(a.k), 0, 1}, special_nan);
      });
    }
    add(" mask:hqk", "a NaN key is masked for head 0", [](const Arguments& a) {
      set(a.k, {0, 5, 0, 1}, special_nan);
      set_mask(a.mask, [](const Shape& at) { return at[1] != 0 || at[3] != 5; });
    });
    add(" mask:hqk sinks", "NaN queries see nothing", [](const Arguments& a) {
      set_where(a.q, special_nan, [](const Shape& at) { return at[2] == 0; });
      set_mask(a.mask, [](const Shape& at) { return at[1] != 0; });
    });
    add(" mask:hqk", "a query that sees nothing stands beside NaN", [](const Arguments& a) {
      set_where(a.q, special_nan, [&](const Shape& at) { return at[1] != 1 % a.q.size[1]; });
      set_mask(a.mask, [&](const Shape& at) { return at[2] != 1 % a.q.size[1]; });
    });

    for (const float value : {special_nan, special_infinity, -special_infinity}) {
      const std::string is = text(" is ", value);
      add(" bias:hqk", "a bias" + is, [=](const Arguments& a) {
        set(a.bias, {0, 0, a.bias.size[2] - 1, 7}, value);
      });
      add(" bias:hqk sinks", "every bias of a head" + is, [=](const Arguments& a) {
        set_where(a.bias, value, [](const Shape& at) { return at[1] == 0; });
      });
      add(" sinks", "a sink" + is, [=](const Arguments& a) { set(a.sinks, {1, 0, 0, 0}, value); });
      add(" sinks mask:hqk", "where nothing is seen, a sink" + is, [=](const Arguments& a) {
        set(a.sinks, {1, 0, 0, 0}, value);
        set_mask(a.mask, [](const Shape&) { return false; });
      });
      add(" causal", "a value" + is, [=](const Arguments& a) {
        set(a.v, {0, last_row(a.v), 0, 2}, value);
      });
      add("", "an element of a query" + is, [=](const Arguments& a) {
        set(a.q, {0, 0, 0, 2}, value);
      });
      add(" causal", "an element of a key" + is, [=](const Arguments& a) {
        set(a.k, {0, last_row(a.k), 0, 2}, value);
      });
    }
    add(" bias:hqk", "biases are +inf and -inf in one row", [](const Arguments& a) {
      set(a.bias, {0, 0, 0, 2}, special_infinity);
      set(a.bias, {0, 0, 0, 3}, -special_infinity);
    });
    add(" bias:hqk", "a bias of -inf meets a NaN key", [](const Arguments& a) {
      set(a.k, {0, 3, 0, 2}, special_nan);
      set(a.bias, {0, 0, 0, 3}, -special_infinity);
    });
    add(" bias:hqk:f32 softcap30", "a bias is NaN under a soft cap", [](const Arguments& a) {
      set(a.bias, {0, 0, 0, 3}, special_nan);
    });
    add(" alibi", "a slope is NaN", [](const Arguments& a) {
      set(a.alibi, {0, 0, 0, 0}, special_nan);
    });
    add(" sinks", "a sink and a query are NaN", [](const Arguments& a) {
      set(a.sinks, {0, 0, 0, 0}, special_nan);
      set(a.q, {0, 0, 1, 0}, special_nan);
    });

    // The reference of a row, rounded, is far from its largest score here.
    for (const char* features : {" scale0.37", " scale0.7", " scale371", " scale1.3e5 causal",
                                 " scale7.7e20", " scale0.9 sinks", " scale0.7 softcap30"}) {
      add(features, "all scores are huge and equal",
          [](const Arguments& a) { set_exact_scores(a, [](std::int64_t) { return 1.0f; }); });
      add(features, "all scores are huge, equal and negative",
          [](const Arguments& a) { set_exact_scores(a, [](std::int64_t) { return -1.0f; }); });
      add(features, "huge scores rise", [](const Arguments& a) {
        set_exact_scores(a, [](std::int64_t key) { return float(key / 4) / 128; });
      });
      add(features, "huge scores fall", [](const Arguments& a) {
        set_exact_scores(a, [](std::int64_t key) { return float(-key / 4) / 128; });
      });
    }
  }

  const auto add = [&](const char* problem, const char* name,
                       std::function<void(const Arguments&)> change) {
    cases.push_back({name, problem, std::move(change)});
  };
  add("b3 h2 q5 kv200 d16 kv_lengths lse", "the last keys of a sequence are NaN",
      [](const Arguments& a) {
        const auto* lengths = static_cast<const std::int32_t*>(a.kv_lengths.data);
        if (lengths[1] > 0) set(a.k, {1, lengths[1] - 1, 0, 1}, special_nan);
      });
  add("b3 h2 q5 kv200 d16 kv_lengths page16 lse", "a sequence's query is NaN",
      [](const Arguments& a) {
        set(a.q, {1, 0, 1, 0}, special_nan);
      });
  add("b3 h2 q40 kv90 d16 varlen causal lse", "a packed query is NaN", [](const Arguments& a) {
    set(a.q, {0, 0, 1, 0}, special_nan);
  });
  add("b1 h1 q70 kv150 d64 causal lse", "the last key of a wide head is NaN",
      [](const Arguments& a) {
        set(a.k, {0, 149, 0, 60}, special_nan);
      });
  add("b1 h1 q3 kv150 d300 causal lse", "the last key of a very wide head is NaN",
      [](const Arguments& a) {
        set(a.k, {0, 149, 0, 270}, special_nan);
      });
  add("b1 h1 q3 kv40 d300 causal lse", "the first of a few keys of a very wide head is NaN",
      [](const Arguments& a) {
        set(a.k, {0, 39, 0, 270}, special_nan);
      });
  return cases;
}

// What IEEE arithmetic makes of one row.
struct SpecialRow {
  double lse;
  std::vector<double> out;  // NaN: not finite
  std::vector<bool> any;    // anything may be there
  bool or_nan = false;      // infinities among its factors may give NaN
  bool or_zero = false;     // e^(s − ∞) over a sum of ∞
};

inline SpecialRow special_row(const Problem& p, const semantics::Call& call,
                              const semantics::Sequence& sequence, std::int64_t head,
                              std::int64_t query) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const auto at = [&](const void* data, std::int64_t index) -> double {
    return with_element_type(p.dtype, [&](auto type) {
      return double(to_float(static_cast<const decltype(type)*>(data)[index]));
    });
  };
  const auto dims = static_cast<std::size_t>(p.v_dim);
  const std::int64_t kv_head = semantics::kv_head_of(call, head);
  const std::int64_t position = query + sequence.offset;
  const std::int64_t q =
      semantics::row_offset(call.q_stride, semantics::query_place(call, sequence, query), head);
  const double sink = call.sinks ? call.sinks[head] : -infinity;
  const semantics::Scoring<double> scoring = {
      call.scale, call.softcap, call.alibi ? semantics::slope_of(call, sequence.index, head) : 0.0};
  SpecialRow row = {0, std::vector<double>(dims), std::vector<bool>(dims)};
  std::vector<double> scores;
  double largest = sink;
  bool is_nan = std::isnan(sink);
  for (std::int64_t key = 0; key < sequence.kv_len; ++key) {
    double& score = scores.emplace_back(-infinity);
    if (!semantics::in_window(call.window, position, key, sequence.kv_len)) continue;
    if (!mask_at(call, sequence.index, head, query, key)) continue;
    const std::int64_t k =
        semantics::row_offset(call.k_stride, semantics::key_place(call, sequence, key), kv_head);
    double dot = 0;
    for (std::int64_t d = 0; d < p.qk_dim; ++d) {
      dot += at(call.q, q + d) * at(call.k, k + d);
      row.or_nan |= std::isinf(at(call.q, q + d)) || std::isinf(at(call.k, k + d));
    }
    const double bias = with_element_type(p.dtype, [&](auto type) {
      return double(bias_at<decltype(type)>(call, sequence.index, head, query, key));
    });
    score = semantics::score(scoring, dot, bias, position, key);
    is_nan |= std::isnan(score);
    if (score > largest) largest = score;
  }

  double sum = sink == -infinity ? 0 : std::exp(sink - largest);
  for (std::size_t key = 0; key < scores.size(); ++key) {
    const std::int64_t v = semantics::row_offset(
        call.v_stride, semantics::key_place(call, sequence, std::int64_t(key)), kv_head);
    const bool seen = scores[key] != -infinity;
    const double weight = seen ? std::exp(scores[key] - largest) : 0;
    sum += weight;
    for (std::size_t d = 0; d < dims; ++d) {
      const double value = at(call.v, v + std::int64_t(d));
      if (std::isfinite(value)) {
        row.out[d] += weight * value;
      } else if (seen) {
        row.out[d] = special_nan;
      } else if (semantics::in_window(call.window, sequence.q_len - 1 + sequence.offset,
                                      std::int64_t(key), sequence.kv_len)) {
        row.any[d] = true;  // other rows of the sequence see it
      }
    }
  }
  row.lse = is_nan ? double(special_nan) : largest;
  if (std::isfinite(row.lse)) {
    row.lse += std::log(sum);
    for (double& value : row.out) value /= sum;
  } else if (is_nan || largest > 0) {
    row.or_zero = !is_nan && sink == infinity;
    row.out.assign(dims, special_nan);
  }
  return row;
}

// Runs a case on every kernel of the device that takes it, in every way that matters, and notes
// which they were.
inline void expect_special_values(const SpecialValues& special, DType dtype, const Device& device,
                                  std::set<std::string>& ran) {
  const Problem problem = Problem::parse(special.problem + " " + std::string(name(dtype)));
  constexpr std::uint64_t seed = 2;
  verify::Data data(problem, device, seed, verify::Fill::hostile);
  const Arguments host = data.on_host();
  verify::Random random(seed);
  for (const TensorRule& rule : tensor_rules()) {
    const Tensor& tensor = host.*rule.member;
    const bool numbers = rule.wanted(problem) && !rule.is_index_data && tensor.present();
    if (!numbers || rule.written(problem.operation) || tensor.dtype == DType::u8) continue;
    const float size = &(host.*rule.member) == &host.alibi ? 1.0f / 64 : 1.0f;
    for_each_position(tensor.size, [&](const Shape& at) {
      // What nobody may read stays NaN.
      if (!std::isnan(get(tensor, at)))
        set(tensor, at, size * float(random.between(-1000, 1000)) / 1000);
    });
  }
  special.change(host);

  const semantics::Call call = make_call(problem, host);
  std::vector<SpecialRow> expected;
  const auto for_each_row = [&](auto&& function) {
    for (std::int64_t batch = 0; batch < problem.batch; ++batch) {
      const semantics::Sequence sequence = semantics::sequence(call, batch);
      for (std::int64_t query = 0; query < sequence.q_len; ++query)
        for (std::int64_t head = 0; head < problem.heads; ++head) function(sequence, query, head);
    }
  };
  for_each_row([&](const semantics::Sequence& sequence, std::int64_t query, std::int64_t head) {
    expected.push_back(special_row(problem, call, sequence, head, query));
  });

  data.upload();
  for (const PlanOptions& options : plans_for(problem, device)) {
    // docs/numerics.md: the one exception.
    const bool huge = special.name.find("huge") != std::string::npos;
    if (huge && options.kernel == "cuda.flash_wgmma") continue;
    ran.insert(std::string(options.kernel));
    data.upload_outputs();
    const Plan plan(problem, device, options);
    const Buffer workspace(device, plan.workspace_bytes());
    plan.run(data.on_device(), {.workspace = workspace.bytes()});
    find_backend(device.backend).wait(device, nullptr);
    const std::vector<std::byte> out_bytes = data.memory("out").download(),
                                 lse_bytes = data.memory("lse").download();
    Tensor out = host.out, lse = host.lse;
    out.data = const_cast<std::byte*>(out_bytes.data() + data.memory("out").front());
    lse.data = const_cast<std::byte*>(lse_bytes.data() + data.memory("lse").front());

    const float tolerance = dtype == DType::f32 ? 2e-5f : dtype == DType::f16 ? 0x1p-9f : 0x1p-6f;
    std::size_t next = 0;
    std::string wrong;
    for_each_row([&](const semantics::Sequence& sequence, std::int64_t query, std::int64_t head) {
      const SpecialRow& row = expected.at(next++);
      const semantics::Place place = semantics::query_place(call, sequence, query);
      const auto compare = [&](const char* what, std::int64_t dim, float got, double value,
                               double allowed, bool right_anyway) {
        const bool right = right_anyway || (row.or_nan && std::isnan(got)) ||
                           (std::isnan(value)   ? std::isnan(got)
                            : std::isinf(value) ? got == float(value)
                                                : std::abs(got - value) <= allowed);
        if (right || !wrong.empty()) return;
        wrong = text(what, " of sequence ", sequence.index, ", query ", query, ", head ", head,
                     ", dim ", dim, " is ", got, "; expected ", value);
      };
      compare("lse", 0, get(lse, {place.outer, head, place.row, 0}), row.lse,
              1e-5 * std::max(1.0, std::abs(row.lse)), false);
      for (std::int64_t dim = 0; dim < problem.v_dim; ++dim) {
        const auto d = static_cast<std::size_t>(dim);
        const float got = get(out, {place.outer, place.row, head, dim});
        const bool value_not_finite = std::isfinite(row.lse) && std::isnan(row.out[d]);
        compare(
            "out", dim, got, row.out[d], tolerance,
            row.any[d] || (value_not_finite && !std::isfinite(got)) || (row.or_zero && got == 0));
      }
    });
    EXPECT_EQ(wrong, "") << options.kernel << " " << options.config.to_string() << " on "
                         << problem.to_string() << ": " << special.name;
  }
}

// All cases in every element type, or every step-th of those from `first` on, counted so that three
// have every case in one element type. Returns the kernels that took one.
inline std::set<std::string> expect_special_values(const Device& device, int first = 0,
                                                   int step = 1) {
  std::set<std::string> ran;
  int number = 0;
  for (const SpecialValues& special : special_values()) {
    int of_case = number++;
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      if (of_case++ % step == first) expect_special_values(special, dtype, device, ran);
    }
  }
  return ran;
}

}  // namespace rapt::test
