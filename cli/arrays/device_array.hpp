// Arrays of files as tensors on a device, and back.
#pragma once

#include <array>
#include <cstdint>

#include "cli/arrays/npy.hpp"
#include "rapt/rapt.hpp"

namespace rapt::cli {

// Row-major, with memory of its own.
struct DeviceArray {
  Buffer memory;
  Tensor tensor;
};

// Throws Error if there is no such memory.
DeviceArray allocate(const Device& device, DType dtype, const std::array<std::int64_t, 4>& size);

// `array` has four axes at most.
DeviceArray upload(const Device& device, const Array& array);

// Waits for what the default stream still has to do. The result has four axes.
Array download(const DeviceArray& source);

// The same values rounded to f32, f16 or bf16.
Array converted(Array array, DType dtype);

}  // namespace rapt::cli
