#include "src/gpu/split_kv.hpp"
#include "src/hip/launcher.hpp"

template void rapt::gpu::launch_split_kv<rapt::hip::Launcher>(const SplitKvParameters&, Where);
