#include "src/cuda/flash_mma/launch.cuh"

namespace rapt::cuda::flash_mma {

template void launch<tiles_for(Products::sixteen, 64)>(const Parameters&, gpu::Where);
template void launch<with_scoring(tiles_for(Products::sixteen, 64))>(const Parameters&, gpu::Where);

}  // namespace rapt::cuda::flash_mma
