#include "src/gpu/limits.hpp"

#include "src/cuda/launcher.cuh"

template void rapt::gpu::launch_limits<rapt::cuda::Launcher>(const LimitsParameters&, Where);
