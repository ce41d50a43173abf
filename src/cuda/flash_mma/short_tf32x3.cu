#include "src/gpu/flash_mma/launch.hpp"

#include "src/cuda/launcher.cuh"

namespace rapt::gpu::flash_mma {

template void launch<cuda::Launcher, short_tiles(MmaKind::tf32x3, 64)>(const Parameters&, Where);
template void launch<cuda::Launcher, short_tiles(MmaKind::tf32x3, 128)>(const Parameters&, Where);

}  // namespace rapt::gpu::flash_mma
