#include "src/cuda/flash_wgmma/launch.cuh"

namespace rapt::cuda::flash_wgmma {

template void launch<tiles_128_decode>(const Parameters&, int, gpu::Where);

}  // namespace rapt::cuda::flash_wgmma
