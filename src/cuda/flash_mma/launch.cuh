// What launches flash_mma, for the .cu files that compile it.
#pragma once

#include "src/cuda/flash_mma/kernel.cuh"
#include "src/cuda/launcher.cuh"

namespace rapt::cuda::flash_mma {

template <TileConfig config>
void launch(const Parameters& p, gpu::Where where) {
  const gpu::Grid grid = {p.call.batch * p.chunks.value * p.call.kv_heads * p.tiles.value};
  if constexpr (config.mma_kind != MmaKind::b16)
    Launcher::launch<FlashMma<config, float>>(grid, p, where);
  else if (p.dtype == DType::f16)
    Launcher::launch<FlashMma<config, F16>>(grid, p, where);
  else
    Launcher::launch<FlashMma<config, BF16>>(grid, p, where);
}

}  // namespace rapt::cuda::flash_mma
