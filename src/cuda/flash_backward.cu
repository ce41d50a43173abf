#include "src/cuda/launcher.cuh"
#include "src/gpu/flash_backward.hpp"

template void rapt::gpu::launch_flash_backward<rapt::cuda::Launcher>(const FlashBackwardParameters&,
                                                                     Where);
