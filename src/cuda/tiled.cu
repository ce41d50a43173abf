#include "src/cuda/launcher.cuh"
#include "src/gpu/tiled_launch.hpp"

template void rapt::gpu::launch_tiled<rapt::cuda::Launcher>(const ScoreMatrix&, TiledTiles, Where);
