#include "src/gpu/naive.hpp"

#include "src/emulator/launcher.hpp"

namespace rapt::gpu {

template void launch_naive<emulator::Launcher<32>>(const ScoreMatrix&, Where);
template void launch_naive<emulator::Launcher<64>>(const ScoreMatrix&, Where);

}  // namespace rapt::gpu
