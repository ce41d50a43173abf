#include "src/cuda/flash_mma/launch.cuh"

namespace rapt::cuda::flash_mma {

template void launch<prefill_tiles(MmaKind::b16, 64, false)>(const Parameters&, gpu::Where);
template void launch<prefill_tiles(MmaKind::b16, 64, true)>(const Parameters&, gpu::Where);

}  // namespace rapt::cuda::flash_mma
