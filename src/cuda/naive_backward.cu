#include "src/cuda/launcher.cuh"
#include "src/gpu/naive_backward.hpp"

template void rapt::gpu::launch_naive_backward<rapt::cuda::Launcher>(const NaiveBackwardParameters&,
                                                                     Where);
