#include "src/gpu/flash_mma_backward/launch.hpp"

#include "src/cuda/launcher.cuh"

namespace rapt::gpu::flash_mma_backward {

template void launch<cuda::Launcher, tiles_for(MmaKind::tf32x3, 128, false)>(
    const FlashBackwardParameters&, Where);
template void launch<cuda::Launcher, tiles_for(MmaKind::tf32x3, 128, true)>(
    const FlashBackwardParameters&, Where);

}  // namespace rapt::gpu::flash_mma_backward
