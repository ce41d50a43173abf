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
constexpr auto in_backward = [](const Problem& p) { return p.operation == Operation::backward; };

template <DType Problem::*member>
DType type_of(const Problem& p) {
  return p.*member;
}

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

// Forward and backward both read what nothing else is said of.
template <Tensor Arguments::*member, rapt_tensor rapt_arguments::*c_member>
constexpr TensorRule rule(std::string_view name) {
  TensorRule result = {};
  result.name = name;
  result.member = member;
  result.c_member = c_member;
  result.form = Form::plain;
  result.forward = result.backward = {Use::reads, false};
  return result;
}
#define RAPT_RULE(name) rule<&Arguments::name, &rapt_arguments::name>(#name)

constexpr TensorRule input(TensorRule rule) {
  rule.forward = rule.backward = {Use::reads, true};
  return rule;
}

// What forward gives and backward needs.
constexpr TensorRule result(TensorRule rule, bool forward_needs_it) {
  rule.forward = {Use::writes, forward_needs_it};
  rule.backward = {Use::reads, true};
  return rule;
}

// Of backward alone.
constexpr TensorRule gradient(TensorRule rule, Use use, bool needed) {
  rule.forward = {Use::none, false};
  rule.backward = {use, needed};
  return rule;
}

// As q: rows of head dims.
constexpr TensorRule rows(TensorRule rule, DType (*dtype)(const Problem&),
                          Axes (*axes)(const Problem&), Problem::Strides Problem::*strides,
                          bool (*wanted)(const Problem&) = always) {
  rule.form = Form::rows;
  rule.wanted = wanted;
  rule.dtype = dtype;
  rule.axes = axes;
  rule.strides = strides;
  return rule;
}
constexpr auto q_axes = axes<Axis::q_outer, Axis::query, Axis::head, Axis::qk_dim>;
constexpr auto k_axes = axes<Axis::kv_outer, Axis::key, Axis::kv_head, Axis::qk_dim>;
constexpr auto v_axes = axes<Axis::kv_outer, Axis::key, Axis::kv_head, Axis::v_dim>;
constexpr auto out_axes = axes<Axis::q_outer, Axis::query, Axis::head, Axis::v_dim>;

template <ScoreTensor Problem::*tensor>
constexpr TensorRule pairs(TensorRule rule) {
  rule.form = Form::pairs;
  rule.wanted = [](const Problem& p) { return (p.*tensor).present(); };
  rule.dtype = [](const Problem& p) { return (p.*tensor).dtype; };
  rule.axes = axes_of_pairs<tensor>;
  rule.pairs = tensor;
  return rule;
}

template <bool Problem::*flag>
constexpr TensorRule logsumexp(TensorRule rule, Problem::Strides Problem::*strides) {
  rule.form = Form::logsumexp;
  rule.wanted = [](const Problem& p) { return p.*flag; };
  rule.dtype = f32;
  rule.axes = axes<Axis::q_outer, Axis::head, Axis::query>;
  rule.strides = strides;
  return rule;
}

template <bool Problem::*flag>
constexpr TensorRule per_head(TensorRule rule, Axes (*axes)(const Problem&)) {
  rule.wanted = [](const Problem& p) { return p.*flag; };
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

constexpr TensorRule seed(TensorRule rule) {
  rule.wanted = [](const Problem& p) { return p.dropout > 0; };
  rule.dtype = [](const Problem&) { return DType::i64; };
  rule.axes = axes<Axis::seed>;
  return rule;
}

constexpr TensorRule rules[] = {
    rows(input(RAPT_RULE(q)), as_q, q_axes, &Problem::q),
    rows(input(RAPT_RULE(k)), as_kv, k_axes, &Problem::k),
    rows(input(RAPT_RULE(v)), as_kv, v_axes, &Problem::v),
    rows(result(RAPT_RULE(out), true), as_out, out_axes, &Problem::out),
    logsumexp<&Problem::lse>(result(RAPT_RULE(lse), false), &Problem::lse_stride),
    pairs<&Problem::bias>(RAPT_RULE(bias)),
    pairs<&Problem::mask>(RAPT_RULE(mask)),
    per_head<&Problem::alibi>(RAPT_RULE(alibi), axes_of_slopes),
    per_head<&Problem::sinks>(RAPT_RULE(sinks), axes<Axis::head>),
    index(RAPT_RULE(q_starts), with_varlen, axes<Axis::starts>),
    index(RAPT_RULE(kv_starts), packed_keys, axes<Axis::starts>),
    index(
        RAPT_RULE(kv_lengths), [](const Problem& p) { return p.lengths; }, axes<Axis::batch>),
    index(
        RAPT_RULE(page_table), [](const Problem& p) { return p.paged(); },
        axes<Axis::batch, Axis::table_pages>),
    rows(gradient(RAPT_RULE(dout), Use::reads, true), as_out, out_axes, &Problem::dout,
         in_backward),
    logsumexp<&Problem::dlse>(gradient(RAPT_RULE(dlse), Use::reads, false), &Problem::dlse_stride),
    rows(gradient(RAPT_RULE(dq), Use::writes, true), type_of<&Problem::dq_dtype>, q_axes,
         &Problem::dq, in_backward),
    rows(gradient(RAPT_RULE(dk), Use::writes, true), type_of<&Problem::dk_dtype>, k_axes,
         &Problem::dk, in_backward),
    rows(gradient(RAPT_RULE(dv), Use::writes, true), type_of<&Problem::dv_dtype>, v_axes,
         &Problem::dv, in_backward),
    pairs<&Problem::dbias>(gradient(RAPT_RULE(dbias), Use::writes, false)),
    per_head<&Problem::dsinks>(gradient(RAPT_RULE(dsinks), Use::writes, false), axes<Axis::head>),
    per_head<&Problem::dalibi>(gradient(RAPT_RULE(dalibi), Use::writes, false), axes_of_slopes),
    seed(RAPT_RULE(seed)),
};
#undef RAPT_RULE

// Sizes that overflow are refused by validate() before anyone uses them.
std::int64_t wrapping_sum(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

TensorInfo info_of(const TensorRule& rule) {
  TensorInfo info = {rule.name, rule.member, rule.form, 1, 1, rule.forward, rule.backward};
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
  set(Axis::seed, 2);
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
    case Axis::seed: return "only";
    case Axis::one: break;
  }
  return "unused";
}

std::int64_t alignment_of_strides(const Problem& p) {
  std::uint64_t bits = 16;
  for (const TensorRule& rule : rules) {
    if (!rule.in_layout() || !rule.wanted(p)) continue;
    const auto element = static_cast<std::uint64_t>(size_in_bytes(rule.dtype(p)));
    for (const std::int64_t stride : p.*rule.strides)
      bits |= static_cast<std::uint64_t>(stride) * element;
  }
  return static_cast<std::int64_t>(bits & (~bits + 1));
}

}  // namespace rapt
