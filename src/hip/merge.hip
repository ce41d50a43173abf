#include "src/gpu/merge.hpp"
#include "src/hip/launcher.hpp"

template void rapt::gpu::launch_merge<rapt::hip::Launcher>(const MergeParameters&, Where);
