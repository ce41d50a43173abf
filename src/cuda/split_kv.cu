#include "src/cuda/launcher.cuh"
#include "src/gpu/split_kv.hpp"

template void rapt::gpu::launch_split_kv<rapt::cuda::Launcher>(const SplitKvParameters&, Where);
template void rapt::gpu::launch_split_kv_combine<rapt::cuda::Launcher>(const SplitKvParameters&,
                                                                       Where);
