#include "src/gpu/tiny_kv.hpp"

#include "src/emulator/launcher.hpp"

namespace rapt::gpu {

template void launch_tiny_kv<emulator::Launcher<32>>(const TinyKvParameters&, Where);
template void launch_tiny_kv<emulator::Launcher<64>>(const TinyKvParameters&, Where);

}  // namespace rapt::gpu
