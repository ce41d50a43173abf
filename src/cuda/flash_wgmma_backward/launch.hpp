// Launches of flash_wgmma_backward. The device code of each TileConfig is compiled in a .cu file of
// its own, and that of the launches before and after in rows.cu.
#pragma once

#include "src/cuda/flash_wgmma_backward/parameters.hpp"
#include "src/cuda/flash_wgmma_backward/tile_config.hpp"
#include "src/gpu/launch.hpp"

namespace rapt::cuda::flash_wgmma_backward {

// For f16 or bf16, as the parameters say.
template <TileConfig config>
void launch(const Parameters& parameters, gpu::Where where);

// config without a score mod.
template <TileConfig config>
void prepare_rows(const Parameters& parameters, gpu::Where where);
template <TileConfig config>
void finish_query_gradients(const Parameters& parameters, gpu::Where where);
// dsinks, where wanted.
void sum_over_rows(const Parameters& parameters, gpu::Where where);

}  // namespace rapt::cuda::flash_wgmma_backward
