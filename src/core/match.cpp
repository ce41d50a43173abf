#include "src/core/match.hpp"

#include <algorithm>
#include <limits>
#include <span>

#include "src/core/fault.hpp"
#include "src/core/layout.hpp"
#include "src/core/overlap.hpp"

namespace rapt {
namespace {

constexpr std::int64_t any_stride = -1;

// A problem's strides are those of its first three axes; what has none there is contiguous along
// its last axis, and steps as it likes along the one before.
std::array<std::int64_t, 4> expected_strides(const Problem& p, const TensorRule& rule,
                                             const Axes& axes) {
  if (const Problem::Strides* planned = strides_in(p, rule))
    return {(*planned)[0], (*planned)[1], (*planned)[2], 1};
  std::array<std::int64_t, 4> result = {any_stride, any_stride, any_stride, any_stride};
  for (std::size_t axis = 4; axis-- > 0;) {
    if (axes[axis] == Axis::one) continue;
    result[axis] = 1;
    break;
  }
  return result;
}

Problem::Strides strides_of(const Tensor& tensor) {
  return {tensor.stride[0], tensor.stride[1], tensor.stride[2]};
}

// Or, where that overflows, more than any problem has.
std::int64_t product(std::int64_t a, std::int64_t b) {
  return checked_product(a, b).value_or(std::numeric_limits<std::int64_t>::max());
}

// As a message calls it.
std::string name_of(const Problem& p, const TensorRule& rule, const Axes& axes, std::size_t axis) {
  constexpr std::array<std::string_view, 4> unused = {"first", "second", "third", "last"};
  return text(rule.name, "'s ", axes[axis] == Axis::one ? unused[axis] : axis_name(p, axes[axis]),
              " axis");
}

}  // namespace

Matcher::Matcher(const Problem& p) : problem_(p), planned_(planned_sizes(p)) {
  for (const TensorRule& rule : tensor_rules()) {
    if (!rule.wanted(p)) {
      absent_[absent_count_++] = &rule;
      continue;
    }
    const DType dtype = rule.dtype(p);
    const std::int64_t alignment =
        std::max(size_in_bytes(dtype), rule.in_layout() ? p.alignment : std::int64_t{1});
    const Axes axes = rule.axes(p);
    expected_[expected_count_++] = {
        &rule,
        dtype,
        static_cast<std::uintptr_t>(alignment),
        axes,
        expected_strides(p, rule, axes),
        !strides_in(p, rule) || (p.paged() && axes[0] == Axis::kv_outer)};
  }
}

bool Matcher::Expected::takes(const Tensor& tensor, const AxisSizes& sizes) const {
  if (tensor.dtype != dtype) return false;
  bool empty = false;
  for (std::size_t axis = 0; axis < 4; ++axis) {
    const std::int64_t size = size_of(sizes, axes[axis]);
    if (tensor.size[axis] != size) return false;
    empty |= size == 0;
    if (size <= 1) continue;
    const std::int64_t given = tensor.stride[axis];
    if (stride[axis] == any_stride ? given < 0 : given != stride[axis]) return false;
  }
  if (empty) return true;
  if (tensor.data == nullptr || reinterpret_cast<std::uintptr_t>(tensor.data) % alignment != 0)
    return false;
  return !reach_is_open || extent(tensor.size, strides_of(tensor), size_in_bytes(dtype));
}

// As they are given; those of tensors that are missing mean nothing.
Sizes Matcher::sizes_of(const Arguments& a) const {
  const Problem& p = problem_;
  Sizes sizes = planned_;
  if (p.varlen) {
    sizes.batch = a.q_starts.size[0] > 0 ? a.q_starts.size[0] - 1 : -1;
    sizes.total_q = a.q.size[1];
    if (!p.paged()) sizes.total_kv = a.k.size[1];
  } else if (p.lengths) {
    sizes.batch = a.q.size[0];
    sizes.q_len = a.q.size[1];
    sizes.total_q = product(sizes.batch, sizes.q_len);
    if (!p.paged()) sizes.kv_len = a.k.size[1];
  }
  if (p.paged()) {
    sizes.pages = a.k.size[0];
    const std::int64_t needed = sizes.table_pages;
    sizes.table_pages = a.page_table.size[1];
    // Sequences of a narrower table are shorter.
    if (p.lengths && sizes.table_pages < needed)
      sizes.kv_len = product(std::max<std::int64_t>(sizes.table_pages, 0), p.page_size);
  }
  return sizes;
}

bool Matcher::within_bounds(const Sizes& sizes) const {
  const Problem& p = problem_;
  const auto within = [](std::int64_t size, std::int64_t most) {
    return size >= 0 && size <= most;
  };
  return within(sizes.batch, p.batch) && within(sizes.q_len, p.q_len) &&
         within(sizes.kv_len, p.kv_len) && within(sizes.total_q, p.total_q) &&
         (!p.varlen || within(sizes.total_kv, p.total_kv)) && sizes.pages >= 0 &&
         sizes.table_pages >= 0 &&
         (!p.paged() || product(sizes.table_pages, p.page_size) >= sizes.kv_len);
}

Sizes Matcher::match(const Arguments& arguments) const {
  const Sizes sizes = sizes_of(arguments);
  bool fits = within_bounds(sizes);
  const AxisSizes of_axes = axis_sizes(problem_, sizes);
  const std::span expected(expected_.data(), expected_count_);
  for (const Expected& one : expected)
    fits = fits && one.takes(arguments.*one.rule->member, of_axes);
  for (std::size_t i = 0; i < absent_count_; ++i)
    fits = fits && !(arguments.*absent_[i]->member).present();
  if (!fits) {
    require_sizes(arguments);
    for (const Expected& one : expected) require_layout(arguments.*one.rule->member, one, of_axes);
  }
  return sizes;
}

void Matcher::require_sizes(const Arguments& arguments) const {
  require_presence(arguments);
  const Sizes sizes = sizes_of(arguments);
  require_bounds(arguments, sizes);
  const AxisSizes of_axes = axis_sizes(problem_, sizes);
  for (const Expected& one : std::span(expected_.data(), expected_count_))
    require_size(arguments.*one.rule->member, one, of_axes);
}

void Matcher::require_memory_of_their_own(const Arguments& arguments) const {
  const std::span expected(expected_.data(), expected_count_);
  std::array<Bytes, 32> bytes;
  for (std::size_t i = 0; i < expected.size(); ++i)
    bytes[i] = bytes_of(arguments.*expected[i].rule->member);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const TensorRule& result = *expected[i].rule;
    if (!result.written(problem_.operation)) continue;
    for (std::size_t j = 0; j < expected.size(); ++j) {
      const TensorRule& other = *expected[j].rule;
      if (i != j && bytes[i].meet(bytes[j]) &&
          share_memory(arguments.*result.member, arguments.*other.member))
        fault(result.name, " shares memory with ", other.name, "; it needs memory of its own");
    }
  }
}

void Matcher::require_presence(const Arguments& arguments) const {
  for (const Expected& one : std::span(expected_.data(), expected_count_)) {
    const Tensor& tensor = arguments.*one.rule->member;
    if (!tensor.present())
      fault(one.rule->name, " is missing; the problem needs it as ", name(one.dtype));
    if (tensor.dtype != one.dtype)
      fault(one.rule->name, " is ", name(tensor.dtype), "; the problem wants ", name(one.dtype));
  }
  for (std::size_t i = 0; i < absent_count_; ++i) {
    if ((arguments.*absent_[i]->member).present())
      fault(absent_[i]->name, " is given but the problem has none");
  }
}

void Matcher::require_bounds(const Arguments& a, const Sizes& sizes) const {
  const Problem& p = problem_;
  const auto require = [&](std::string_view what, std::int64_t size, std::int64_t most) {
    if (size < 0) fault(what, " has size ", size, "; it must be 0 or more");
    if (size > most)
      fault(what, " has size ", size, "; the problem wants ", p.bounded() ? "up to " : "", most);
  };
  if (p.varlen) {
    require("q_starts's start axis", a.q_starts.size[0], p.batch + 1);
    if (sizes.batch < 0) fault("q_starts's start axis has size 0; it must be 1 or more");
    require("q's seq axis", sizes.total_q, p.total_q);
    if (!p.paged()) require("k's seq axis", sizes.total_kv, p.total_kv);
  } else if (p.lengths) {
    require("q's batch axis", sizes.batch, p.batch);
    require("q's seq axis", sizes.q_len, p.q_len);
    if (!p.paged()) require("k's seq axis", sizes.kv_len, p.kv_len);
  }
  if (!p.paged()) return;
  if (sizes.pages < 0) fault("k's page axis has size ", sizes.pages, "; it must be 0 or more");
  if (product(sizes.table_pages, p.page_size) < sizes.kv_len) {
    fault("page_table has room for ", sizes.table_pages, " pages of a sequence; ", sizes.kv_len,
          " keys need ", planned_.table_pages);
  }
}

void Matcher::require_size(const Tensor& tensor, const Expected& expected,
                           const AxisSizes& sizes) const {
  const Problem& p = problem_;
  const TensorRule& rule = *expected.rule;
  for (std::size_t axis = 0; axis < 4; ++axis) {
    if (rule.pairs) {
      constexpr Axes full_axes = {Axis::batch, Axis::head, Axis::q_len, Axis::kv_len};
      const std::string what = text(rule.name, "'s ", axis_name(p, full_axes[axis]), " axis");
      const std::int64_t full = size_of(sizes, full_axes[axis]);
      if (tensor.size[axis] != full && tensor.size[axis] != 1)
        fault(what, " has size ", tensor.size[axis], "; it must be ", full, " or 1 (broadcast)");
      if (full != 1 && is_broadcast(tensor, axis) == (p.*rule.pairs).varies[axis]) {
        fault(what, " is ", is_broadcast(tensor, axis) ? "" : "not ",
              "broadcast; the problem was planned the other way");
      }
    } else if (const std::int64_t wanted = size_of(sizes, expected.axes[axis]);
               tensor.size[axis] != wanted) {
      fault(name_of(p, rule, expected.axes, axis), " has size ", tensor.size[axis],
            "; the problem wants ", wanted,
            expected.axes[axis] == Axis::one ? ", as of every axis that is not used" : "");
    }
  }
}

void Matcher::require_layout(const Tensor& tensor, const Expected& expected,
                             const AxisSizes& sizes) const {
  const Problem& p = problem_;
  const TensorRule& rule = *expected.rule;
  Shape shape = {};
  for (std::size_t axis = 0; axis < 4; ++axis) shape[axis] = size_of(sizes, expected.axes[axis]);
  const auto axis_of = [&](std::size_t axis) { return name_of(p, rule, expected.axes, axis); };
  if (is_empty(shape)) return;
  for (std::size_t axis = 0; axis < 4; ++axis) {
    const std::int64_t given = tensor.stride[axis], wanted = expected.stride[axis];
    if (shape[axis] <= 1 || given == wanted) continue;
    if (wanted == any_stride) {
      if (given < 0) fault(axis_of(axis), " has stride ", given, "; it must be 0 or more");
    } else if (axis == 3 || !strides_in(p, rule)) {
      fault(axis == 3 ? text(rule.name, "'s last axis") : axis_of(axis), " has stride ", given,
            "; it must be contiguous (stride 1): copy it first");
    } else {
      fault(axis_of(axis), " has stride ", given, "; the problem was planned with ", wanted);
    }
  }
  if (tensor.data == nullptr) fault(rule.name, "'s data is null but it has elements");
  if (reinterpret_cast<std::uintptr_t>(tensor.data) % expected.alignment != 0) {
    fault(rule.name, "'s address is not aligned to ", expected.alignment,
          " bytes; align it, or make the problem from these arguments");
  }
  if (!extent(shape, strides_of(tensor), size_in_bytes(expected.dtype))) {
    fault(rule.name, " with ", shape[0], " × ", shape[1], " × ", shape[2], " × ", shape[3],
          " elements spans more bytes than 64-bit indexing reaches");
  }
}

// The strides of an empty tensor mean nothing.
bool is_broadcast(const Tensor& tensor, std::size_t axis) {
  return tensor.size[axis] == 1 || (tensor.stride[axis] == 0 && !is_empty(tensor.size));
}

}  // namespace rapt
