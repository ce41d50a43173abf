#include "src/cuda/flash_mma/launch.cuh"

namespace rapt::cuda::flash_mma {

template void launch<prefill_tiles(MmaKind::tf32, 128, false)>(const Parameters&, gpu::Where);
template void launch<prefill_tiles(MmaKind::tf32, 128, true)>(const Parameters&, gpu::Where);
template void launch<prefill_tiles(MmaKind::tf32, 256, false)>(const Parameters&, gpu::Where);
template void launch<prefill_tiles(MmaKind::tf32, 256, true)>(const Parameters&, gpu::Where);

}  // namespace rapt::cuda::flash_mma
