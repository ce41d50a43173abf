#include "src/core/tensors.hpp"

#include <algorithm>
#include <vector>

#include "src/core/fault.hpp"

namespace rapt {
namespace {

using Form = TensorInfo::Form;

constexpr auto always = [](const Problem&) { return true; };
constexpr auto with_varlen = [](const Problem& p) { return p.varlen; };
constexpr auto packed_keys = [](const Problem& p) { return p.varlen && !p.paged(); };
constexpr auto f32 = [](const Problem&) { return DType::f32; };
constexpr auto i32 = [](const Problem&) { return DType::i32; };
constexpr auto as_q = [](const Problem& p) { return p.dtype; };
constexpr auto as_kv = [](const Problem& p) { return p.kv_dtype; };
constexpr auto as_out = [](const Problem& p) { return p.out_dtype; };

template <Axis first, Axis second = Axis::one, Axis third = Axis::one, Axis last = Axis::one>
Axes axes(const Problem&) {
  return {first, second, third, last};
}

template <ScoreTensor Problem::*tensor>
Axes axes_of_pairs(const Problem& p) {
  Axes result = {Axis::batch, Axis::head, Axis::q_len, Axis::kv_len};
  for (std::size_t axis = 0; axis < 4; ++axis) {
    if (!(p.*tensor).varies[axis]) result[axis] = Axis::one;
  }
  return result;
}

Axes axes_of_slopes(const Problem& p) {
  return p.alibi_per_sequence ? axes<Axis::batch, Axis::head>(p) : axes<Axis::head>(p);
}

template <Tensor Arguments::*member, rapt_tensor rapt_arguments::*c_member>
constexpr TensorRule rule(std::string_view name) {
  TensorRule result = {};
  result.name = name;
  result.member = member;
  result.c_member = c_member;
  result.form = Form::plain;
  result.forward = Use::reads;
  return result;
}
#define RAPT_RULE(name) rule<&Arguments::name, &rapt_arguments::name>(#name)

// q, k, v or out.
constexpr TensorRule rows(TensorRule rule, Use forward, DType (*dtype)(const Problem&),
                          Axes (*axes)(const Problem&), Problem::Strides Problem::*strides) {
  rule.form = Form::rows;
  rule.forward = forward;
  rule.needed = true;
  rule.wanted = always;
  rule.dtype = dtype;
  rule.axes = axes;
  rule.strides = strides;
  return rule;
}

template <ScoreTensor Problem::*tensor>
constexpr TensorRule pairs(TensorRule rule) {
  rule.form = Form::pairs;
  rule.wanted = [](const Problem& p) { return (p.*tensor).present(); };
  rule.dtype = [](const Problem& p) { return (p.*tensor).dtype; };
  rule.axes = axes_of_pairs<tensor>;
  rule.pairs = tensor;
  return rule;
}

constexpr TensorRule lse(TensorRule rule) {
  rule.form = Form::logsumexp;
  rule.forward = Use::writes;
  rule.wanted = [](const Problem& p) { return p.lse; };
  rule.dtype = f32;
  rule.axes = axes<Axis::q_outer, Axis::head, Axis::query>;
  rule.strides = &Problem::lse_stride;
  return rule;
}

constexpr TensorRule per_head(TensorRule rule, bool (*wanted)(const Problem&),
                              Axes (*axes)(const Problem&)) {
  rule.wanted = wanted;
  rule.dtype = f32;
  rule.axes = axes;
  return rule;
}

constexpr TensorRule index(TensorRule rule, bool (*wanted)(const Problem&),
                           Axes (*axes)(const Problem&)) {
  rule.wanted = wanted;
  rule.dtype = i32;
  rule.axes = axes;
  rule.is_index_data = true;
  return rule;
}

constexpr TensorRule rules[] = {
    rows(RAPT_RULE(q), Use::reads, as_q, axes<Axis::q_outer, Axis::query, Axis::head, Axis::qk_dim>,
         &Problem::q),
    rows(RAPT_RULE(k), Use::reads, as_kv,
         axes<Axis::kv_outer, Axis::key, Axis::kv_head, Axis::qk_dim>, &Problem::k),
    rows(RAPT_RULE(v), Use::reads, as_kv,
         axes<Axis::kv_outer, Axis::key, Axis::kv_head, Axis::v_dim>, &Problem::v),
    rows(RAPT_RULE(out), Use::writes, as_out,
         axes<Axis::q_outer, Axis::query, Axis::head, Axis::v_dim>, &Problem::out),
    lse(RAPT_RULE(lse)),
    pairs<&Problem::bias>(RAPT_RULE(bias)),
    pairs<&Problem::mask>(RAPT_RULE(mask)),
    per_head(
        RAPT_RULE(alibi), [](const Problem& p) { return p.alibi; }, axes_of_slopes),
    per_head(
        RAPT_RULE(sinks), [](const Problem& p) { return p.sinks; }, axes<Axis::head>),
    index(RAPT_RULE(q_starts), with_varlen, axes<Axis::starts>),
    index(RAPT_RULE(kv_starts), packed_keys, axes<Axis::starts>),
    index(
        RAPT_RULE(kv_lengths), [](const Problem& p) { return p.lengths; }, axes<Axis::batch>),
    index(
        RAPT_RULE(page_table), [](const Problem& p) { return p.paged(); },
        axes<Axis::batch, Axis::table_pages>),
};
#undef RAPT_RULE

// Sizes that overflow are refused by validate() before anyone uses them.
std::int64_t wrapping_sum(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

TensorInfo info_of(const TensorRule& rule) {
  TensorInfo info = {
      rule.name, rule.member, rule.form, 1, 1, rule.needed, rule.written(Operation::forward)};
  switch (rule.form) {
    case Form::rows: info.least_axes = 3, info.most_axes = 4; break;
    case Form::pairs: info.most_axes = 4; break;
    case Form::logsumexp: info.least_axes = 2, info.most_axes = 3; break;
    case Form::plain: {
      const auto count = [&](const Problem& problem) {
        const auto is_real = [](Axis axis) { return axis != Axis::one; };
        return static_cast<std::int32_t>(std::ranges::count_if(rule.axes(problem), is_real));
      };
      Problem with_all_axes;
      with_all_axes.alibi_per_sequence = true;
      info.least_axes = count(Problem());
      info.most_axes = count(with_all_axes);
    }
  }
  return info;
}

}  // namespace

std::span<const TensorRule> tensor_rules() { return rules; }

const TensorRule& tensor_rule(std::string_view name) {
  for (const TensorRule& rule : rules) {
    if (rule.name == name) return rule;
  }
  fault("there is no tensor '", name, "'");
}

std::span<const TensorInfo> tensors() {
  static const std::vector<TensorInfo> all = [] {
    std::vector<TensorInfo> result;
    for (const TensorRule& rule : rules) result.push_back(info_of(rule));
    return result;
  }();
  return all;
}

Sizes planned_sizes(const Problem& p, std::int64_t pages) {
  const std::int64_t table_pages =
      p.paged() ? p.kv_len / p.page_size + (p.kv_len % p.page_size != 0) : 0;
  return {p.batch, p.q_len, p.kv_len, p.total_q, p.total_kv, pages, table_pages};
}

AxisSizes axis_sizes(const Problem& p, const Sizes& s) {
  AxisSizes result = {};
  const auto set = [&](Axis axis, std::int64_t size) {
    result[static_cast<std::size_t>(axis)] = size;
  };
  const bool keys_are_packed = packed_keys(p);
  set(Axis::one, 1);
  set(Axis::batch, s.batch);
  set(Axis::starts, wrapping_sum(s.batch, 1));
  set(Axis::q_outer, p.varlen ? 1 : s.batch);
  set(Axis::query, p.varlen ? s.total_q : s.q_len);
  set(Axis::kv_outer, p.paged() ? s.pages : keys_are_packed ? 1 : s.batch);
  set(Axis::key, p.paged() ? p.page_size : keys_are_packed ? s.total_kv : s.kv_len);
  set(Axis::q_len, s.q_len);
  set(Axis::kv_len, s.kv_len);
  set(Axis::head, p.heads);
  set(Axis::kv_head, p.kv_heads);
  set(Axis::qk_dim, p.qk_dim);
  set(Axis::v_dim, p.v_dim);
  set(Axis::table_pages, s.table_pages);
  return result;
}

Shape shape_of(const Problem& p, const TensorRule& rule, std::int64_t pages) {
  const AxisSizes sizes = axis_sizes(p, planned_sizes(p, pages));
  Shape shape = {};
  std::ranges::transform(rule.axes(p), shape.begin(),
                         [&](Axis axis) { return size_of(sizes, axis); });
  return shape;
}

Problem::Strides* strides_in(Problem& p, const TensorRule& rule) {
  return rule.strides ? &(p.*rule.strides) : rule.pairs ? &(p.*rule.pairs).stride : nullptr;
}
const Problem::Strides* strides_in(const Problem& p, const TensorRule& rule) {
  return rule.strides ? &(p.*rule.strides) : rule.pairs ? &(p.*rule.pairs).stride : nullptr;
}

Problem::Strides dense_strides(const TensorRule& rule, const Shape& shape, Layout layout) {
  return rule.in_layout() ? dense_strides(shape, layout) : dense_row_major(shape);
}

std::string_view axis_name(const Problem& p, Axis axis) {
  switch (axis) {
    case Axis::batch:
    case Axis::q_outer: return "batch";
    case Axis::kv_outer: return p.paged() ? "page" : "batch";
    case Axis::key: return p.paged() ? "slot" : "seq";
    case Axis::query: return "seq";
    case Axis::starts: return "start";
    case Axis::q_len: return "q";
    case Axis::kv_len: return "kv";
    case Axis::head:
    case Axis::kv_head: return "head";
    case Axis::qk_dim:
    case Axis::v_dim: return "dim";
    case Axis::table_pages: return "page";
    case Axis::one: break;
  }
  return "unused";
}

std::int64_t alignment_of_strides(const Problem& p) {
  std::uint64_t bits = 16;
  for (const TensorRule& rule : rules) {
    if (!rule.in_layout()) continue;
    const auto element = static_cast<std::uint64_t>(size_in_bytes(rule.dtype(p)));
    for (const std::int64_t stride : p.*rule.strides)
      bits |= static_cast<std::uint64_t>(stride) * element;
  }
  return static_cast<std::int64_t>(bits & (~bits + 1));
}

}  // namespace rapt
