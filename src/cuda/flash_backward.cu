#include "src/cuda/launcher.cuh"
#include "src/gpu/flash_backward.hpp"

namespace rapt::gpu {

template void launch_flash_backward<cuda::Launcher>(const FlashBackwardParameters&, Where);
template void launch_before_gradients<cuda::Launcher>(const FlashBackwardParameters&, Where);
template void launch_other_gradients<cuda::Launcher>(const FlashBackwardParameters&, Where);

}  // namespace rapt::gpu
