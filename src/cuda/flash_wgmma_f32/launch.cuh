// What launches flash_wgmma_f32, for the .cu files that compile it.
#pragma once

#include "src/cuda/flash_wgmma_f32/kernel.cuh"
#include "src/cuda/flash_wgmma_f32/launch.hpp"
#include "src/cuda/launcher.cuh"

namespace rapt::cuda::flash_wgmma_f32 {

template <TileConfig config>
void launch(const Parameters& p, gpu::Where where) {
  Launcher::launch<FlashWgmmaF32<config>>({p.call.batch * p.call.kv_heads * p.tiles.value}, p,
                                          where);
}

}  // namespace rapt::cuda::flash_wgmma_f32
