#include "src/gpu/flash_backward.hpp"
#include "src/hip/launcher.hpp"

template void rapt::gpu::launch_flash_backward<rapt::hip::Launcher>(const FlashBackwardParameters&,
                                                                    Where);
