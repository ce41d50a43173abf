// What launches flash_mma, for the .cu files that compile it.
#pragma once

#include "src/cuda/flash_mma/kernel.cuh"
#include "src/cuda/launcher.cuh"

namespace rapt::cuda::flash_mma {

template <TileConfig config>
void launch(const Parameters& parameters, gpu::Where where) {
  const semantics::Call& call = parameters.call;
  const gpu::Grid grid = {semantics::divided_up(call.q_len, config.rows()) * call.heads *
                          call.batch};
  if constexpr (config.products != Products::sixteen)
    Launcher::launch<Kernel<config, float>>(grid, parameters, where);
  else if (parameters.dtype == DType::f16)
    Launcher::launch<Kernel<config, F16>>(grid, parameters, where);
  else
    Launcher::launch<Kernel<config, BF16>>(grid, parameters, where);
}

}  // namespace rapt::cuda::flash_mma
