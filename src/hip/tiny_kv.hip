#include "src/gpu/tiny_kv.hpp"
#include "src/hip/launcher.hpp"

template void rapt::gpu::launch_tiny_kv<rapt::hip::Launcher>(const TinyKvParameters&, Where);
