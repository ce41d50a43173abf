#include "src/cuda/launcher.cuh"
#include "src/gpu/flash.hpp"

template void rapt::gpu::launch_flash<rapt::cuda::Launcher>(const FlashParameters&, Where);
