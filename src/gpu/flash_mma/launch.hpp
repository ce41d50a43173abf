// What launches flash_mma, for the files that compile it on a backend.
#pragma once

#include "src/gpu/flash_mma/kernel.hpp"

namespace rapt::gpu::flash_mma {

template <class Launcher, TileConfig config>
void launch(const Parameters& p, Where where) {
  const Grid grid = {p.call.batch * p.chunks.value * p.call.kv_heads * p.tiles.value};
  if constexpr (config.mma_kind != MmaKind::b16)
    Launcher::template launch<FlashMma<typename Launcher::Target, config, float>>(grid, p, where);
  else if (p.dtype == DType::f16)
    Launcher::template launch<FlashMma<typename Launcher::Target, config, F16>>(grid, p, where);
  else
    Launcher::template launch<FlashMma<typename Launcher::Target, config, BF16>>(grid, p, where);
}

}  // namespace rapt::gpu::flash_mma
