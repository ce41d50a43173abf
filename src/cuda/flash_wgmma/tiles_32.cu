#include "src/cuda/flash_wgmma/launch.cuh"

namespace rapt::cuda::flash_wgmma {

template void launch<tiles_32>(const Parameters&, int, gpu::Where);

}  // namespace rapt::cuda::flash_wgmma
