#include "src/gpu/naive.hpp"
#include "src/hip/launcher.hpp"

template void rapt::gpu::launch_naive<rapt::hip::Launcher>(const ScoreMatrix&, Where);
