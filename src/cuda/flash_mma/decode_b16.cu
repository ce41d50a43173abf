#include "src/gpu/flash_mma/launch.hpp"

#include "src/cuda/launcher.cuh"

namespace rapt::gpu::flash_mma {

template void launch<cuda::Launcher, decode_tiles(MmaKind::b16, 64)>(const Parameters&, Where);
template void launch<cuda::Launcher, decode_tiles(MmaKind::b16, 128)>(const Parameters&, Where);
template void launch<cuda::Launcher, decode_tiles(MmaKind::b16, 256)>(const Parameters&, Where);

}  // namespace rapt::gpu::flash_mma
