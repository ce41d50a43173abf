#include "src/gpu/flash_mma/launch.hpp"

#include "src/cuda/launcher.cuh"

namespace rapt::gpu::flash_mma {

template void launch<cuda::Launcher, prefill_tiles(MmaKind::b16, 256, false)>(const Parameters&,
                                                                              Where);
template void launch<cuda::Launcher, prefill_tiles(MmaKind::b16, 256, true)>(const Parameters&,
                                                                             Where);

}  // namespace rapt::gpu::flash_mma
