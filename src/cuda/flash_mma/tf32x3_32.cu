#include "src/cuda/flash_mma/launch.cuh"

namespace rapt::cuda::flash_mma {

template void launch<prefill_tiles(MmaKind::tf32x3, 32, false)>(const Parameters&, gpu::Where);
template void launch<prefill_tiles(MmaKind::tf32x3, 32, true)>(const Parameters&, gpu::Where);

}  // namespace rapt::cuda::flash_mma
