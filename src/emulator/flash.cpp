#include "src/gpu/flash.hpp"

#include "src/emulator/launcher.hpp"

namespace rapt::gpu {

template void launch_flash<emulator::Launcher<32>>(const FlashParameters&, Where);
template void launch_flash<emulator::Launcher<64>>(const FlashParameters&, Where);

}  // namespace rapt::gpu
