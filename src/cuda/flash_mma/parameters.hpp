// What a launch of flash_mma is given: what split_kv's are.
#pragma once

#include "src/cuda/flash_mma/tile_config.hpp"
#include "src/gpu/split_kv_parameters.hpp"

namespace rapt::cuda::flash_mma {

using Parameters = gpu::SplitKvParameters;

// For the element type that the parameters and the products say. The device code of each config is
// compiled in one of the .cu files.
template <TileConfig config>
void launch(const Parameters& parameters, gpu::Where where);

}  // namespace rapt::cuda::flash_mma
