// Binds the portable kernels to their names on this backend. Their device code is compiled in the
// .hip files beside this one.
#include "src/hip/kernels.hpp"

#include "src/portable/portable_kernels.hpp"

namespace rapt {

namespace hip {
struct Launcher;  // launcher.hpp, for the HIP compiler alone
}

extern template void gpu::launch_naive<hip::Launcher>(const gpu::ScoreMatrix&, gpu::Where);
extern template void gpu::launch_tiled<hip::Launcher>(const gpu::ScoreMatrix&, gpu::TiledTiles,
                                                      gpu::Where);
extern template void gpu::launch_flash<hip::Launcher>(const gpu::FlashParameters&, gpu::Where);
extern template void gpu::launch_split_kv<hip::Launcher>(const gpu::SplitKvParameters&, gpu::Where);
extern template void gpu::launch_tiny_kv<hip::Launcher>(const gpu::TinyKvParameters&, gpu::Where);
extern template void gpu::launch_flash_backward<hip::Launcher>(const gpu::FlashBackwardParameters&,
                                                               gpu::Where);
extern template void gpu::launch_naive_backward<hip::Launcher>(const gpu::NaiveBackwardParameters&,
                                                               gpu::Where);

namespace {

constexpr gpu::Launches launches = gpu::launches_of<hip::Launcher>(Backend::hip);

}  // namespace

constexpr Kernel hip_naive = gpu::kernel_named<launches, gpu::NaiveHost>("hip.naive");
constexpr Kernel hip_shared = gpu::kernel_named<launches, gpu::SharedHost>("hip.shared");
constexpr Kernel hip_flash = gpu::kernel_named<launches, gpu::FlashHost>("hip.flash");
constexpr Kernel hip_flash_wide = gpu::kernel_named<launches, gpu::FlashWideHost>("hip.flash_wide");
constexpr Kernel hip_split_kv = gpu::kernel_named<launches, gpu::SplitKvHost>("hip.split_kv");
constexpr Kernel hip_tiny_kv = gpu::kernel_named<launches, gpu::TinyKvHost>("hip.tiny_kv");
constexpr Kernel hip_naive_backward =
    gpu::kernel_named<launches, gpu::NaiveBackwardHost>("hip.naive_backward");
constexpr Kernel hip_flash_backward =
    gpu::kernel_named<launches, gpu::FlashBackwardHost>("hip.flash_backward");

}  // namespace rapt
