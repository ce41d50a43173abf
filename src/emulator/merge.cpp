#include "src/gpu/merge.hpp"

#include "src/emulator/launcher.hpp"

namespace rapt::gpu {

template void launch_merge<emulator::Launcher<32>>(const MergeParameters&, Where);
template void launch_merge<emulator::Launcher<64>>(const MergeParameters&, Where);

}  // namespace rapt::gpu
