// Binds flash_mma_backward to its name on this backend. Its device code is compiled in the .cu
// files beside this one.
#include "src/cuda/check.hpp"
#include "src/cuda/compiled_code.hpp"
#include "src/cuda/kernels.hpp"
#include "src/portable/flash_mma_backward.hpp"

namespace rapt {

namespace cuda {
struct Launcher;  // launcher.cuh, for nvcc alone
}
extern template void gpu::launch_before_gradients<cuda::Launcher>(
    const gpu::FlashBackwardParameters&, gpu::Where);
extern template void gpu::launch_other_gradients<cuda::Launcher>(
    const gpu::FlashBackwardParameters&, gpu::Where);

namespace {

using namespace gpu::flash_mma_backward;

Support supports_on_cuda(const Problem& problem, const Device& device) {
  if (Support code = cuda::has_code(device); !code) return code;
  return supports(problem, device);
}

void launch_tiles(const TileConfig& config, const gpu::FlashBackwardParameters& parameters,
                  gpu::Where where) {
  const cuda::UseDevice current(where.device);
  gpu::launch_before_gradients<cuda::Launcher>(parameters, where);
  with_tiles(config.mma_kind, config.dim, config.score_mod,
             [&]<TileConfig tiles>() { launch<cuda::Launcher, tiles>(parameters, where); });
  gpu::launch_other_gradients<cuda::Launcher>(parameters, where);
}

}  // namespace

constexpr Kernel cuda_flash_mma_backward = {
    .name = "cuda.flash_mma_backward",
    .summary = summary,
    .backend = Backend::cuda,
    .operation = Operation::backward,
    .by_name_only = false,
    .supports = supports_on_cuda,
    .configs = one_empty_config,
    .estimate = estimate,
    .workspace = workspace,
    .prepare = [](const Task& task) { return prepare(launch_tiles, task); },
};

}  // namespace rapt
