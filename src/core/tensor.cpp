// Element types by name and size, and the two ways to make a Tensor.
#include <algorithm>
#include <utility>

#include "rapt/rapt.hpp"
#include "src/core/fault.hpp"
#include "src/core/text.hpp"

namespace rapt {

std::string_view name(DType dtype) {
  switch (dtype) {
    case DType::none: return "none";
    case DType::f32: return "f32";
    case DType::f16: return "f16";
    case DType::bf16: return "bf16";
    case DType::i32: return "i32";
    case DType::u8: return "u8";
    case DType::i64: return "i64";
  }
  return "unknown";
}

std::string_view name(Operation operation) {
  return operation == Operation::backward ? "backward" : "forward";
}

std::int64_t size_in_bytes(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::i32: return 4;
    case DType::f16:
    case DType::bf16: return 2;
    case DType::u8: return 1;
    case DType::i64: return 8;
    case DType::none: break;
  }
  return 0;
}

Tensor Tensor::dense(const void* data, DType dtype, std::span<const std::int64_t> size) {
  if (size.size() > 4) {
    fault("a tensor has ", size.size(), " axes; rapt's have at most 4");
  }
  Tensor tensor{const_cast<void*>(data), dtype, {1, 1, 1, 1}, {}};
  std::ranges::copy(size, tensor.size.begin());
  std::int64_t stride = 1;
  for (std::size_t axis = 4; axis-- > 0;) {
    tensor.stride[axis] = stride;
    if (__builtin_mul_overflow(stride, std::max<std::int64_t>(tensor.size[axis], 1), &stride)) {
      fault("the size of a tensor overflows 64 bits at axis ", axis);
    }
  }
  return tensor;
}

Tensor Tensor::transposed(int axis, int other) const {
  if (axis < 0 || axis > 3 || other < 0 || other > 3) {
    fault("cannot exchange axes ", axis, " and ", other, ": a tensor's axes are 0 to 3");
  }
  Tensor result = *this;
  std::swap(result.size[static_cast<std::size_t>(axis)],
            result.size[static_cast<std::size_t>(other)]);
  std::swap(result.stride[static_cast<std::size_t>(axis)],
            result.stride[static_cast<std::size_t>(other)]);
  return result;
}

}  // namespace rapt
