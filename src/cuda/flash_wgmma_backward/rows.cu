#include "src/cuda/flash_wgmma_backward/rows.cuh"

#include "src/cuda/flash_wgmma_backward/launch.hpp"
#include "src/cuda/launcher.cuh"

namespace rapt::cuda::flash_wgmma_backward {
namespace {

template <class Function>
void with_b16(const Parameters& parameters, Function&& function) {
  if (parameters.common.dtype == DType::f16)
    function.template operator()<F16>();
  else
    function.template operator()<BF16>();
}

}  // namespace

template <TileConfig config>
void prepare_rows(const Parameters& parameters, gpu::Where where) {
  const semantics::Call& call = parameters.common.call;
  with_b16(parameters, [&]<class Element>() {
    using Kernel = PrepareRows<Target, config, Element>;
    const gpu::Index rows =
        call.batch * parameters.schedule.query_tiles * config.queries * call.heads;
    Launcher::launch<Kernel>({semantics::divided_up(rows, gpu::Index{Kernel::rows})}, parameters,
                             where);
  });
}

template <TileConfig config>
void finish_query_gradients(const Parameters& parameters, gpu::Where where) {
  const semantics::Call& call = parameters.common.call;
  with_b16(parameters, [&]<class Element>() {
    using Kernel = FinishQueryGradients<Target, config, Element>;
    const gpu::Index tiles = call.batch * call.heads * parameters.schedule.query_tiles;
    Launcher::launch<Kernel>(
        {semantics::divided_up(tiles * Kernel::threads_of_tile, gpu::Index{Kernel::threads})},
        parameters, where);
  });
}

void sum_over_rows(const Parameters& parameters, gpu::Where where) {
  gpu::launch_sums_over_rows<Launcher>(parameters.common, where);
}

template void prepare_rows<tiles_64>(const Parameters&, gpu::Where);
template void prepare_rows<tiles_128>(const Parameters&, gpu::Where);
template void prepare_rows<tiles_192>(const Parameters&, gpu::Where);
template void prepare_rows<tiles_256>(const Parameters&, gpu::Where);
template void finish_query_gradients<tiles_64>(const Parameters&, gpu::Where);
template void finish_query_gradients<tiles_128>(const Parameters&, gpu::Where);
template void finish_query_gradients<tiles_192>(const Parameters&, gpu::Where);
template void finish_query_gradients<tiles_256>(const Parameters&, gpu::Where);

}  // namespace rapt::cuda::flash_wgmma_backward
