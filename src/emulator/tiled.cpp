#include "src/gpu/tiled_launch.hpp"

#include "src/emulator/launcher.hpp"

namespace rapt::gpu {

template void launch_tiled<emulator::Launcher<32>>(const ScoreMatrix&, TiledTiles, Where);
template void launch_tiled<emulator::Launcher<64>>(const ScoreMatrix&, TiledTiles, Where);

}  // namespace rapt::gpu
