#include "src/cuda/flash_wgmma_backward/launch.cuh"

namespace rapt::cuda::flash_wgmma_backward {

template void launch<tiles_256>(const Parameters&, gpu::Where);
template void launch<with_score_mod(tiles_256)>(const Parameters&, gpu::Where);

}  // namespace rapt::cuda::flash_wgmma_backward
