#include "src/cuda/launcher.cuh"
#include "src/gpu/tiled.hpp"

template void rapt::gpu::launch_tiled<rapt::cuda::Launcher>(const ScoreMatrix&, Index, Where);
