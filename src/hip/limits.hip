#include "src/gpu/limits.hpp"
#include "src/hip/launcher.hpp"

template void rapt::gpu::launch_limits<rapt::hip::Launcher>(const LimitsParameters&, Where);
