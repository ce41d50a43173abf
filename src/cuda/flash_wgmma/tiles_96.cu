#include "src/cuda/flash_wgmma/launch.cuh"

namespace rapt::cuda::flash_wgmma {

template void launch<tiles_96>(const Parameters&, int, gpu::Where);
template void launch<with_score_mod(tiles_96)>(const Parameters&, int, gpu::Where);

}  // namespace rapt::cuda::flash_wgmma
