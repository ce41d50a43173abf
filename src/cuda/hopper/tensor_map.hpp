// Tensor maps: how TMA sees a tensor of 16-bit elements.
#pragma once

#include <array>

#include <cuda.h>

#include "rapt/rapt.hpp"

namespace rapt::cuda {

// Axes go from the innermost outwards; the innermost is contiguous. Strides are in elements, of all
// axes but the innermost, and multiples of 16 bytes where an axis is longer than 1.
template <int axes>
struct MappedTensor {
  const void* data;
  DType dtype;
  std::array<std::int64_t, axes> size;
  std::array<std::int64_t, axes - 1> stride;
  std::array<std::int64_t, axes> box;  // what one load brings
};

// Looks for what the functions below need of the driver, once, which no stream that is captured
// allows: for plans, whose first run may be captured.
void find_map_functions();

template <int axes>
CUtensorMap tensor_map(const MappedTensor<axes>& tensor);

// Whether an axis of a (batch, row, head) tensor that is stepped along has a stride that TMA does
// not take.
bool has_unmapped_stride(const Problem::Strides& stride, std::int64_t outer, std::int64_t rows,
                         std::int64_t heads);

// The map of a tensor that lies elsewhere and is the same otherwise.
void move_map(CUtensorMap& map, const void* data);

}  // namespace rapt::cuda
