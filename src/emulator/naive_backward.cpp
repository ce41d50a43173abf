#include "src/gpu/naive_backward.hpp"

#include "src/emulator/launcher.hpp"

namespace rapt::gpu {

template void launch_naive_backward<emulator::Launcher<32>>(const NaiveBackwardParameters&, Where);
template void launch_naive_backward<emulator::Launcher<64>>(const NaiveBackwardParameters&, Where);

}  // namespace rapt::gpu
