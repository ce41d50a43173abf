// Launches of flash_wgmma. The device code of each TileConfig is compiled in a .cu file of its own.
#pragma once

#include "src/cuda/flash_wgmma/parameters.hpp"
#include "src/cuda/flash_wgmma/tile_config.hpp"
#include "src/gpu/launch.hpp"

namespace rapt::cuda::flash_wgmma {

// For f16 or bf16, as the parameters say.
template <TileConfig config>
void launch(const Parameters& parameters, int blocks, gpu::Where where);

}  // namespace rapt::cuda::flash_wgmma
