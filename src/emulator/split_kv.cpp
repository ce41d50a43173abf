#include "src/gpu/split_kv.hpp"

#include "src/emulator/launcher.hpp"

namespace rapt::gpu {

template void launch_split_kv<emulator::Launcher<32>>(const SplitKvParameters&, Where);
template void launch_split_kv<emulator::Launcher<64>>(const SplitKvParameters&, Where);

}  // namespace rapt::gpu
