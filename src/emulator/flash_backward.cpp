#include "src/gpu/flash_backward.hpp"

#include "src/emulator/launcher.hpp"

namespace rapt::gpu {

template void launch_flash_backward<emulator::Launcher<32>>(const FlashBackwardParameters&, Where);
template void launch_flash_backward<emulator::Launcher<64>>(const FlashBackwardParameters&, Where);
template void launch_before_gradients<emulator::Launcher<32>>(const FlashBackwardParameters&,
                                                              Where);
template void launch_other_gradients<emulator::Launcher<32>>(const FlashBackwardParameters&, Where);

}  // namespace rapt::gpu
