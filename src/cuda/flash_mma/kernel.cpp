// Binds flash_mma to its name on this backend. Its device code is compiled in the .cu files beside
// this one.
#include "src/cuda/check.hpp"
#include "src/cuda/compiled_code.hpp"
#include "src/cuda/kernels.hpp"
#include "src/gpu/split_kv.hpp"
#include "src/portable/flash_mma.hpp"

namespace rapt {

namespace cuda {
struct Launcher;  // launcher.cuh, for nvcc alone
}
extern template void gpu::launch_split_kv_combine<cuda::Launcher>(const gpu::SplitKvParameters&,
                                                                  gpu::Where);

namespace {

using namespace gpu::flash_mma;

Support supports_on_cuda(const Problem& problem, const Device& device) {
  if (Support code = cuda::has_code(device); !code) return code;
  return supports(problem, device);
}

void launch_tiles(TileConfig config, const Parameters& parameters, gpu::Where where) {
  const cuda::UseDevice current(where.device);
  with_compiled_tiles(
      config, [&]<TileConfig tiles>() { launch<cuda::Launcher, tiles>(parameters, where); });
  if (parameters.chunks.value > 1) gpu::launch_split_kv_combine<cuda::Launcher>(parameters, where);
}

}  // namespace

constexpr Kernel cuda_flash_mma = {
    .name = "cuda.flash_mma",
    .summary = summary,
    .backend = Backend::cuda,
    .by_name_only = false,
    .supports = supports_on_cuda,
    .configs = configs,
    .estimate = estimate,
    .workspace = workspace,
    .prepare = [](const Task& task) { return prepare(launch_tiles, task); },
};

}  // namespace rapt
