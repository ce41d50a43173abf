#include "src/cuda/launcher.cuh"
#include "src/gpu/gemm.hpp"

template void rapt::gpu::launch_gemm<rapt::cuda::Launcher>(const GemmParameters&, const Products&,
                                                           Where);
