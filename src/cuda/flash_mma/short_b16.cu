#include "src/cuda/flash_mma/launch.cuh"

namespace rapt::cuda::flash_mma {

template void launch<short_tiles(MmaKind::b16, 64)>(const Parameters&, gpu::Where);
template void launch<short_tiles(MmaKind::b16, 128)>(const Parameters&, gpu::Where);

}  // namespace rapt::cuda::flash_mma
