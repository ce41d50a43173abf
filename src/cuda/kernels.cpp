// Binds the portable kernels to their names on this backend. Their device code is compiled in the
// .cu files beside this one.
#include "src/cuda/kernels.hpp"

#include "src/cuda/compiled_code.hpp"
#include "src/portable/portable_kernels.hpp"

namespace rapt {

namespace cuda {
struct Launcher;  // launcher.cuh, for nvcc alone
}

extern template void gpu::launch_naive<cuda::Launcher>(const gpu::ScoreMatrix&, gpu::Where);
extern template void gpu::launch_tiled<cuda::Launcher>(const gpu::ScoreMatrix&, gpu::TiledTiles,
                                                       gpu::Where);
extern template void gpu::launch_flash<cuda::Launcher>(const gpu::FlashParameters&, gpu::Where);
extern template void gpu::launch_split_kv<cuda::Launcher>(const gpu::SplitKvParameters&,
                                                          gpu::Where);
extern template void gpu::launch_tiny_kv<cuda::Launcher>(const gpu::TinyKvParameters&, gpu::Where);
extern template void gpu::launch_flash_backward<cuda::Launcher>(const gpu::FlashBackwardParameters&,
                                                                gpu::Where);
extern template void gpu::launch_naive_backward<cuda::Launcher>(const gpu::NaiveBackwardParameters&,
                                                                gpu::Where);

namespace {

constexpr gpu::Launches launches = gpu::launches_of<cuda::Launcher>(Backend::cuda, cuda::has_code);

}  // namespace

constexpr Kernel cuda_naive = gpu::kernel_named<launches, gpu::NaiveHost>("cuda.naive");
constexpr Kernel cuda_shared = gpu::kernel_named<launches, gpu::SharedHost>("cuda.shared");
constexpr Kernel cuda_flash = gpu::kernel_named<launches, gpu::FlashHost>("cuda.flash");
constexpr Kernel cuda_flash_wide =
    gpu::kernel_named<launches, gpu::FlashWideHost>("cuda.flash_wide");
constexpr Kernel cuda_split_kv = gpu::kernel_named<launches, gpu::SplitKvHost>("cuda.split_kv");
constexpr Kernel cuda_tiny_kv = gpu::kernel_named<launches, gpu::TinyKvHost>("cuda.tiny_kv");
constexpr Kernel cuda_naive_backward =
    gpu::kernel_named<launches, gpu::NaiveBackwardHost>("cuda.naive_backward");
constexpr Kernel cuda_flash_backward =
    gpu::kernel_named<launches, gpu::FlashBackwardHost>("cuda.flash_backward");

}  // namespace rapt
