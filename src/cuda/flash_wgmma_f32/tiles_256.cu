#include "src/cuda/flash_wgmma_f32/launch.cuh"

namespace rapt::cuda::flash_wgmma_f32 {

template void launch<tiles_for(256, false)>(const Parameters&, gpu::Where);
template void launch<tiles_for(256, true)>(const Parameters&, gpu::Where);

}  // namespace rapt::cuda::flash_wgmma_f32
