#include "src/cuda/launcher.cuh"
#include "src/gpu/tiny_kv.hpp"

template void rapt::gpu::launch_tiny_kv<rapt::cuda::Launcher>(const TinyKvParameters&, Where);
