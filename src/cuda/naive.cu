#include "src/cuda/launcher.cuh"
#include "src/gpu/naive.hpp"

template void rapt::gpu::launch_naive<rapt::cuda::Launcher>(const ScoreMatrix&, Where);
