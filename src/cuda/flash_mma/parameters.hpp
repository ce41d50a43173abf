// What a launch of flash_mma is given.
#pragma once

#include "rapt/rapt.hpp"
#include "src/cuda/flash_mma/tile_config.hpp"
#include "src/gpu/divisor.hpp"
#include "src/gpu/launch.hpp"
#include "src/semantics/call.hpp"

namespace rapt::cuda::flash_mma {

struct Parameters {
  semantics::Call call;
  DType dtype;
  bool aligned;  // rows of all tensors start at multiples of 16 bytes
  gpu::Divisor page_size;
};

// For the element type that the parameters and the products say. The device code of each config is
// compiled in one of the .cu files.
template <TileConfig config>
void launch(const Parameters& parameters, gpu::Where where);

}  // namespace rapt::cuda::flash_mma
