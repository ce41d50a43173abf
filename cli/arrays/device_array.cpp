#include "cli/arrays/device_array.hpp"

#include <algorithm>

#include "src/verify/elements.hpp"

namespace rapt::cli {
namespace {

std::size_t bytes_of(const Tensor& tensor) {
  std::int64_t bytes = size_in_bytes(tensor.dtype);
  for (const std::int64_t size : tensor.size) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) {
      throw Error(ErrorCode::invalid_argument,
                  "the result would have more bytes than 64-bit indexing reaches");
    }
  }
  return static_cast<std::size_t>(bytes);
}

}  // namespace

DeviceArray allocate(const Device& device, DType dtype, const std::array<std::int64_t, 4>& size) {
  DeviceArray result;
  result.tensor = Tensor::dense(nullptr, dtype, size);
  result.memory = Buffer(device, bytes_of(result.tensor));
  result.tensor.data = result.memory.data();
  return result;
}

DeviceArray upload(const Device& device, const Array& array) {
  std::array<std::int64_t, 4> size = {1, 1, 1, 1};
  std::ranges::copy(array.shape, size.begin());
  DeviceArray result = allocate(device, array.dtype, size);
  result.memory.copy_from_host(array.data.data(), array.data.size());
  return result;
}

Array download(const DeviceArray& source) {
  Array array{source.tensor.dtype, {source.tensor.size.begin(), source.tensor.size.end()}, {}};
  array.data.resize(source.memory.size());
  source.memory.copy_to_host(array.data.data(), array.data.size());
  return array;
}

Array converted(Array array, DType dtype) {
  if (array.dtype == dtype) return array;
  const auto count = array.data.size() / static_cast<std::size_t>(size_in_bytes(array.dtype));
  std::vector<float> values(count);
  verify::from_elements(array.dtype, array.data.data(), values);
  array.data.resize(count * static_cast<std::size_t>(size_in_bytes(dtype)));
  verify::to_elements(dtype, values, array.data.data());
  array.dtype = dtype;
  return array;
}

}  // namespace rapt::cli
