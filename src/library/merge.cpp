// merge(): two attentions over disjoint sets of keys become one, weighted by their lse.
#include <algorithm>
#include <cmath>
#include <limits>

#include "src/core/call.hpp"
#include "src/core/layout.hpp"
#include "src/core/parallel.hpp"
#include "src/core/text.hpp"
#include "src/cpu/thread_pool.hpp"

namespace rapt {
namespace {

template <class... Parts>
[[noreturn]] void fault(const Parts&... parts) {
  throw Error(ErrorCode::invalid_argument, text("merge: ", parts...));
}

void check_tensor(std::string_view name, const Tensor& tensor, const Shape& shape) {
  if (tensor.size != shape) {
    fault(name, " has sizes ", tensor.size[0], " × ", tensor.size[1], " × ", tensor.size[2], " × ",
          tensor.size[3], "; ", shape[0], " × ", shape[1], " × ", shape[2], " × ", shape[3],
          " are wanted");
  }
  for (std::size_t axis = 0; axis < 4; ++axis) {
    if (tensor.stride[axis] < 0)
      fault(name, " has a stride of ", tensor.stride[axis], "; strides must be 0 or more");
  }
  if (shape[3] > 1 && tensor.stride[3] != 1)
    fault(name, "'s last axis has stride ", tensor.stride[3], "; it must be contiguous");
  const auto elements = extent(shape, {tensor.stride[0], tensor.stride[1], tensor.stride[2]},
                               size_in_bytes(tensor.dtype));
  if (!elements) fault(name, " spans more bytes than 64-bit indexing reaches");
  if (*elements == 0) return;
  if (tensor.data == nullptr) fault(name, "'s data is null but it has elements");
  if (reinterpret_cast<std::uintptr_t>(tensor.data) %
          static_cast<std::uintptr_t>(size_in_bytes(tensor.dtype)) !=
      0) {
    fault(name, "'s address is not aligned to its element size");
  }
}

void check_no_overlap(std::string_view name, const Tensor& tensor) {
  if (overlaps_itself(tensor.size, {tensor.stride[0], tensor.stride[1], tensor.stride[2]}))
    fault(name, " overlaps itself; no two results may share memory");
}

void check_partial(std::string_view name, const Partial& partial, const Shape& out) {
  const DType dtype = partial.out.dtype;
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16) {
    fault(name, ".out is ", rapt::name(dtype), "; it must be f32, f16 or bf16");
  }
  if (partial.lse.dtype != DType::f32)
    fault(name, ".lse is ", rapt::name(partial.lse.dtype), "; it must be f32");
  check_tensor(text(name, ".out"), partial.out, out);
  check_tensor(text(name, ".lse"), partial.lse, {out[0], out[2], out[1], 1});
}

struct Position {
  std::int64_t batch, seq, head;
};

float& lse_at(const Partial& partial, const Position& at) {
  const auto& stride = partial.lse.stride;
  return static_cast<float*>(
      partial.lse.data)[at.batch * stride[0] + at.head * stride[1] + at.seq * stride[2]];
}

std::int64_t out_row(const Partial& partial, const Position& at) {
  const auto& stride = partial.out.stride;
  return at.batch * stride[0] + at.seq * stride[1] + at.head * stride[2];
}

float load(const Tensor& tensor, std::int64_t index) {
  return with_element_type(tensor.dtype, [&](auto type) {
    return to_float(static_cast<const decltype(type)*>(tensor.data)[index]);
  });
}

void store(const Tensor& tensor, std::int64_t index, float value) {
  with_element_type(tensor.dtype, [&](auto type) {
    static_cast<decltype(type)*>(tensor.data)[index] = from_float<decltype(type)>(value);
  });
}

void merge_row(const Partial& first, const Partial& second, const Partial& result,
               const Position& at) {
  constexpr float minus_infinity = -std::numeric_limits<float>::infinity();
  const float a = lse_at(first, at), b = lse_at(second, at);
  const float largest = std::max(a, b);
  // An empty side weighs nothing, and its out is not looked at.
  const double weight_a = a == minus_infinity ? 0 : std::exp(double(a) - largest);
  const double weight_b = b == minus_infinity ? 0 : std::exp(double(b) - largest);
  const double sum = weight_a + weight_b;
  const std::int64_t row_a = out_row(first, at), row_b = out_row(second, at),
                     row = out_row(result, at);
  for (std::int64_t d = 0; d < result.out.size[3]; ++d) {
    double value = 0;
    if (weight_a != 0) value += weight_a / sum * load(first.out, row_a + d);
    if (weight_b != 0) value += weight_b / sum * load(second.out, row_b + d);
    store(result.out, row + d, static_cast<float>(value));
  }
  lse_at(result, at) = sum == 0 ? minus_infinity : static_cast<float>(largest + std::log(sum));
}

}  // namespace

void merge(const Partial& first, const Partial& second, const Partial& result,
           const Device& device) {
  if (device.backend != Backend::cpu) {
    throw Error(ErrorCode::unsupported,
                text("merge runs on the CPU; copy the partial results from ", device.to_string(),
                     " first"));
  }
  const Shape shape = first.out.size;
  if (std::ranges::any_of(shape, [](std::int64_t size) { return size < 0; }))
    fault("first.out has a negative size");
  check_partial("first", first, shape);
  check_partial("second", second, shape);
  check_partial("result", result, shape);
  check_no_overlap("result.out", result.out);
  check_no_overlap("result.lse", result.lse);
  if (is_empty(shape)) return;
  Executor& executor = shared_thread_pool(device.threads);
  const auto [batch, seq, heads, dim] = shape;
  parallel_for(executor, batch * seq, [&, seq = seq, heads = heads](std::int64_t row) {
    for (std::int64_t head = 0; head < heads; ++head)
      merge_row(first, second, result, {row / seq, row % seq, head});
  });
}

}  // namespace rapt
