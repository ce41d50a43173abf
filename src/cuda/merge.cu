#include "src/cuda/launcher.cuh"
#include "src/gpu/merge.hpp"

template void rapt::gpu::launch_merge<rapt::cuda::Launcher>(const MergeParameters&, Where);
