#include "src/gpu/flash.hpp"
#include "src/hip/launcher.hpp"

template void rapt::gpu::launch_flash<rapt::hip::Launcher>(const FlashParameters&, Where);
