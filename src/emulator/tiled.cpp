#include "src/gpu/tiled.hpp"

#include "src/emulator/launcher.hpp"

namespace rapt::gpu {

template void launch_tiled<emulator::Launcher<32>>(const ScoreMatrix&, Index, Where);
template void launch_tiled<emulator::Launcher<64>>(const ScoreMatrix&, Index, Where);

}  // namespace rapt::gpu
