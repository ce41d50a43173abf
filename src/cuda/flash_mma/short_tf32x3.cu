#include "src/cuda/flash_mma/launch.cuh"

namespace rapt::cuda::flash_mma {

template void launch<short_tiles(MmaKind::tf32x3, 64)>(const Parameters&, gpu::Where);
template void launch<short_tiles(MmaKind::tf32x3, 128)>(const Parameters&, gpu::Where);

}  // namespace rapt::cuda::flash_mma
