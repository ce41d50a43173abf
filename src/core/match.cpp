#include "src/core/match.hpp"

#include <algorithm>

#include "src/core/fault.hpp"
#include "src/core/layout.hpp"

namespace rapt {
namespace {

using AxisNames = std::array<std::string_view, 4>;
constexpr AxisNames qkv_axes = {"batch", "seq", "head", "dim"};
constexpr AxisNames page_axes = {"page", "slot", "head", "dim"};
constexpr AxisNames lse_axes = {"batch", "head", "seq", "last"};
constexpr AxisNames score_axes = {"batch", "head", "q", "kv"};

// One tensor against the type, sizes and strides it must have.
class Expected {
 public:
  Expected(std::string_view name, const Tensor& tensor, DType dtype)
      : name_(name), tensor_(tensor) {
    if (!tensor.present()) fault(name, " is missing; the problem needs it as ", rapt::name(dtype));
    if (tensor.dtype != dtype)
      fault(name, " is ", rapt::name(tensor.dtype), "; the problem wants ", rapt::name(dtype));
  }

  void sizes(const Shape& shape, const AxisNames& axes) const {
    for (std::size_t axis = 0; axis < 4; ++axis) {
      if (tensor_.size[axis] != shape[axis]) {
        fault(name_, "'s ", axes[axis], " axis has size ", tensor_.size[axis],
              "; the problem wants ", shape[axis]);
      }
    }
  }

  void strides(const Shape& shape, const Problem::Strides& strides, const AxisNames& axes) const {
    if (is_empty(shape)) return;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      if (shape[axis] > 1 && tensor_.stride[axis] != strides[axis]) {
        fault(name_, "'s ", axes[axis], " axis has stride ", tensor_.stride[axis],
              "; the problem was planned with ", strides[axis]);
      }
    }
    last_axis_contiguous(shape);
  }

  void last_axis_contiguous(const Shape& shape) const {
    if (shape[3] > 1 && tensor_.stride[3] != 1) {
      fault(name_, "'s last axis has stride ", tensor_.stride[3],
            "; it must be contiguous (stride 1): copy it first");
    }
  }

  void pointer(const Shape& shape, std::int64_t alignment) const {
    if (is_empty(shape)) return;
    if (tensor_.data == nullptr) fault(name_, "'s data is null but it has elements");
    const auto address = reinterpret_cast<std::uintptr_t>(tensor_.data);
    if (address % static_cast<std::uintptr_t>(alignment) != 0) {
      fault(name_, "'s address is not aligned to ", alignment,
            " bytes; align it, or make the problem from these arguments");
    }
  }

 private:
  std::string_view name_;
  const Tensor& tensor_;
};

void match_main(const Problem& p, std::string_view name, const Tensor& tensor, const Shape& shape,
                const Problem::Strides& strides, const AxisNames& axes) {
  const Expected expected(name, tensor, p.dtype);
  expected.sizes(shape, axes);
  expected.strides(shape, strides, axes);
  expected.pointer(shape, p.alignment);
}

// A tensor of one axis: per head, per sequence.
void match_vector(std::string_view name, const Tensor& tensor, DType dtype, bool wanted,
                  std::int64_t size) {
  if (!wanted) {
    if (tensor.present()) fault(name, " is given but the problem has none");
    return;
  }
  const Expected expected(name, tensor, dtype);
  const Shape shape = {size, 1, 1, 1};
  expected.sizes(shape, {"first", "second", "third", "last"});
  if (size > 1 && tensor.stride[0] != 1)
    fault(name, " has stride ", tensor.stride[0], "; it must be contiguous: copy it first");
  expected.pointer(shape, size_in_bytes(dtype));
}

void match_score(const Problem& p, std::string_view name, const Tensor& tensor,
                 const ScoreTensor& wanted) {
  if (!wanted.present()) {
    if (tensor.present()) fault("a ", name, " is given but the problem has none");
    return;
  }
  const Expected expected(name, tensor, wanted.dtype);
  const Shape full = {p.batch, p.heads, p.q_len, p.kv_len};
  for (std::size_t axis = 0; axis < 4; ++axis) {
    const bool broadcast = is_broadcast(tensor, axis);
    if (tensor.size[axis] != full[axis] && tensor.size[axis] != 1) {
      fault(name, "'s ", score_axes[axis], " axis has size ", tensor.size[axis], "; it must be ",
            full[axis], " or 1 (broadcast)");
    }
    if (broadcast == wanted.varies[axis]) {
      fault(name, "'s ", score_axes[axis], " axis is ", broadcast ? "" : "not ",
            "broadcast; the problem was planned the other way");
    }
  }
  const Shape shape = score_shape(p, wanted);
  expected.strides(shape, wanted.stride, score_axes);
  expected.pointer(shape, size_in_bytes(wanted.dtype));
}

void match_keys(const Problem& p, const Arguments& a) {
  const std::int64_t pages = p.paged() ? a.k.size[0] : many_pages;
  if (pages < 0) fault("k's page axis has size ", pages, "; it must be 0 or more");
  const AxisNames& axes = p.paged() ? page_axes : qkv_axes;
  match_main(p, "k", a.k, k_shape(p, pages), p.k, axes);
  match_main(p, "v", a.v, v_shape(p, pages), p.v, axes);
  for (const auto& [name, shape, strides] :
       {std::tuple{"k", k_shape(p, pages), p.k}, std::tuple{"v", v_shape(p, pages), p.v}}) {
    if (!extent(shape, strides, size_in_bytes(p.dtype))) {
      fault(name, " with ", pages, " pages spans more bytes than 64-bit indexing reaches");
    }
  }
}

void match_page_table(const Problem& p, const Arguments& a) {
  const Tensor& table = a.page_table;
  if (!p.paged()) {
    if (table.present()) fault("page_table is given but the problem is not paged");
    return;
  }
  const Expected expected("page_table", table, DType::i32);
  const Shape shape = {p.batch, table.size[1], 1, 1};
  expected.sizes(shape, {"batch", "page", "third", "last"});
  const std::int64_t pages = (p.kv_len + p.page_size - 1) / p.page_size;
  if (table.size[1] < pages) {
    fault("page_table has room for ", table.size[1], " pages of a sequence; ", p.kv_len,
          " keys need ", pages);
  }
  if (table.size[1] > 1 && table.stride[1] != 1)
    fault("page_table's page axis has stride ", table.stride[1], "; it must be 1");
  if (p.batch > 1 && table.stride[0] < 0)
    fault("page_table's batch axis has stride ", table.stride[0], "; it must be 0 or more");
  if (!extent(shape, {table.stride[0], table.stride[1], 0}, size_in_bytes(DType::i32)))
    fault("page_table spans more bytes than 64-bit indexing reaches");
  if (pages > 0) expected.pointer(shape, size_in_bytes(DType::i32));
}

void match_results(const Problem& p, const Arguments& a) {
  match_main(p, "out", a.out, out_shape(p), p.out, qkv_axes);
  if (p.lse) {
    const Expected expected("lse", a.lse, DType::f32);
    expected.sizes(lse_shape(p), lse_axes);
    expected.strides(lse_shape(p), p.lse_stride, lse_axes);
    expected.pointer(lse_shape(p), size_in_bytes(DType::f32));
  } else if (a.lse.present()) {
    fault("lse is given but the problem has none");
  }
  if (is_empty(out_shape(p))) return;
  for (const auto& [name, tensor] :
       {std::pair{"q", &a.q}, std::pair{"k", &a.k}, std::pair{"v", &a.v}}) {
    if (tensor->data == a.out.data)
      fault("out has the same address as ", name, "; it needs memory of its own");
  }
}

std::span<const std::int32_t> integers(const Tensor& tensor, std::int64_t count) {
  return {static_cast<const std::int32_t*>(tensor.data), static_cast<std::size_t>(count)};
}

void check_starts(std::string_view name, const Tensor& tensor, std::int64_t batch,
                  std::int64_t total, std::int64_t longest) {
  const auto starts = integers(tensor, batch + 1);
  if (starts[0] < 0) fault(name, "[0] is ", starts[0], "; starts must be 0 or more");
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    const std::int64_t length = std::int64_t{starts[i + 1]} - starts[i];
    if (length < 0)
      fault(name, " goes backwards: ", name, "[", i + 1, "] is ", starts[i + 1], " after ",
            starts[i]);
    if (length > longest) {
      fault(name, " gives sequence ", i, " a length of ", length, "; the problem's bound is ",
            longest);
    }
  }
  if (starts.back() > total) {
    fault(name, "[", batch, "] is ", starts.back(), "; the packed tensor has ", total, " rows");
  }
}

void check_lengths(const Problem& p, const Arguments& a) {
  const auto lengths = integers(a.kv_lengths, p.batch);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    std::int64_t room = p.kv_len;
    if (a.kv_starts.present()) {
      const auto starts = integers(a.kv_starts, p.batch + 1);
      room = starts[i + 1] - starts[i];
    }
    if (lengths[i] < 0 || lengths[i] > room) {
      fault("kv_lengths[", i, "] is ", lengths[i], "; it must be from 0 to ", room);
    }
  }
}

// Entries past a sequence's length are never read and may be anything.
void check_pages(const Problem& p, const Arguments& a) {
  const std::int64_t pages = a.k.size[0];
  const auto* table = static_cast<const std::int32_t*>(a.page_table.data);
  for (std::int64_t i = 0; i < p.batch; ++i) {
    const std::int64_t length =
        p.lengths ? integers(a.kv_lengths, p.batch)[static_cast<std::size_t>(i)] : p.kv_len;
    const std::int64_t used = (length + p.page_size - 1) / p.page_size;
    for (std::int64_t j = 0; j < used; ++j) {
      const std::int32_t page = table[i * a.page_table.stride[0] + j];
      if (page < 0 || page >= pages) {
        fault("page_table[", i, "][", j, "] is ", page, "; the pool has pages 0 to ", pages - 1);
      }
    }
  }
}

}  // namespace

// The strides of an empty tensor mean nothing.
bool is_broadcast(const Tensor& tensor, std::size_t axis) {
  return tensor.size[axis] == 1 || (tensor.stride[axis] == 0 && !is_empty(tensor.size));
}

void match(const Problem& p, const Arguments& a) {
  match_main(p, "q", a.q, q_shape(p), p.q, qkv_axes);
  match_keys(p, a);
  match_results(p, a);
  match_score(p, "bias", a.bias, p.bias);
  match_score(p, "mask", a.mask, p.mask);
  match_vector("alibi", a.alibi, DType::f32, p.alibi, p.heads);
  match_vector("sinks", a.sinks, DType::f32, p.sinks, p.heads);
  match_vector("q_starts", a.q_starts, DType::i32, p.varlen, p.batch + 1);
  match_vector("kv_starts", a.kv_starts, DType::i32, p.varlen && !p.paged(), p.batch + 1);
  match_vector("kv_lengths", a.kv_lengths, DType::i32, p.lengths, p.batch);
  match_page_table(p, a);
}

void check_index_data(const Problem& p, const Arguments& a) {
  if (p.varlen) check_starts("q_starts", a.q_starts, p.batch, p.total_q, p.q_len);
  if (p.varlen && !p.paged()) check_starts("kv_starts", a.kv_starts, p.batch, p.total_kv, p.kv_len);
  if (p.lengths) check_lengths(p, a);
  if (p.paged()) check_pages(p, a);
}

}  // namespace rapt
