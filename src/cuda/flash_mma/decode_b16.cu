#include "src/cuda/flash_mma/launch.cuh"

namespace rapt::cuda::flash_mma {

template void launch<decode_tiles(MmaKind::b16, 64)>(const Parameters&, gpu::Where);
template void launch<decode_tiles(MmaKind::b16, 128)>(const Parameters&, gpu::Where);
template void launch<decode_tiles(MmaKind::b16, 256)>(const Parameters&, gpu::Where);

}  // namespace rapt::cuda::flash_mma
