// What a launch of flash_mma is given: what split_kv's are.
#pragma once

#include "src/gpu/flash_mma/tile_config.hpp"
#include "src/gpu/split_kv_parameters.hpp"

namespace rapt::gpu::flash_mma {

using Parameters = SplitKvParameters;

// For the element type that the parameters and the products say.
template <class Launcher, TileConfig config>
void launch(const Parameters& parameters, Where where);

}  // namespace rapt::gpu::flash_mma
