// Whether two tensors share memory. Results must share none with anything that is read beside them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rapt/rapt.hpp"

namespace rapt {

// From a tensor's first byte to one past the last; none of an empty one. Strides are 0 or more, and
// the extent exists.
struct Bytes {
  std::uintptr_t begin, end;

  bool meet(const Bytes& other) const {
    return begin < other.end && other.begin < end && begin < end && other.begin < other.end;
  }
};
inline Bytes bytes_of(const Tensor& tensor) {
  const auto begin = reinterpret_cast<std::uintptr_t>(tensor.data);
  std::uintptr_t last = 0;
  for (std::size_t axis = 0; axis < 4; ++axis) {
    if (tensor.size[axis] == 0) return {begin, begin};
    last += static_cast<std::uintptr_t>(tensor.size[axis] - 1) *
            static_cast<std::uintptr_t>(tensor.stride[axis]);
  }
  return {begin, begin + (last + 1) * static_cast<std::uintptr_t>(size_in_bytes(tensor.dtype))};
}

// Whether some byte belongs to both. Where their bytes meet, tensors may still lie between each
// other's rows, as views of one buffer do.
bool share_memory(const Tensor& a, const Tensor& b);

// Whether both are the same elements in the same places.
bool is_same_memory(const Tensor& a, const Tensor& b);

}  // namespace rapt
