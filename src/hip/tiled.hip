#include "src/gpu/tiled_launch.hpp"
#include "src/hip/launcher.hpp"

template void rapt::gpu::launch_tiled<rapt::hip::Launcher>(const ScoreMatrix&, TiledTiles, Where);
