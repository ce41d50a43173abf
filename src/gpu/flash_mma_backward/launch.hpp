// What launches flash_mma_backward's kernels of dq, dk and dv, for the files that compile them on a
// backend.
#pragma once

#include "src/gpu/flash_mma_backward/kernel.hpp"

namespace rapt::gpu::flash_mma_backward {

template <class Launcher, TileConfig config, class Element>
void launch_of(const FlashBackwardParameters& parameters, Where where) {
  using Target = typename Launcher::Target;
  const semantics::Call& call = parameters.common.call;
  const Grid keys = {semantics::divided_up(call.kv_len, config.own()) * call.kv_heads * call.batch};
  const Grid queries = {semantics::divided_up(call.q_len, config.own()) * call.heads * call.batch};
  const auto launch_one = [&]<Makes makes>(Grid grid) {
    Launcher::template launch<FlashMmaBackward<Target, config, makes, Element>>(grid, parameters,
                                                                                where);
  };
  if constexpr (config.apart) {
    launch_one.template operator()<Makes::dk>(keys);
    launch_one.template operator()<Makes::dv>(keys);
  } else {
    launch_one.template operator()<Makes::dk_and_dv>(keys);
  }
  launch_one.template operator()<Makes::dq>(queries);
}

// For the element type that the parameters and the products say.
template <class Launcher, TileConfig config>
void launch(const FlashBackwardParameters& parameters, Where where) {
  if constexpr (config.mma_kind != MmaKind::b16)
    launch_of<Launcher, config, float>(parameters, where);
  else if (parameters.common.dtype == DType::f16)
    launch_of<Launcher, config, F16>(parameters, where);
  else
    launch_of<Launcher, config, BF16>(parameters, where);
}

}  // namespace rapt::gpu::flash_mma_backward
