// Launches portable kernels on NVIDIA GPUs.
#pragma once

#include "src/cuda/check.hpp"
#include "src/cuda/launch_entry.hpp"
#include "src/cuda/shared_memory.hpp"
#include "src/cuda/target.cuh"
#include "src/gpu/launch.hpp"

namespace rapt::cuda {

template <class Kernel>
__global__ void __launch_bounds__(Kernel::threads, Kernel::blocks)
    entry(const __grid_constant__ typename Kernel::Parameters parameters) {
  // A kernel that follows may come onto the chip while this one's blocks still run.
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
  Kernel::run(parameters);
}

template <class Kernel>
constexpr bool follows() {
  if constexpr (requires { Kernel::follows; }) return Kernel::follows;
  return false;
}
template <class Kernel>
constexpr bool most_shared_memory() {
  if constexpr (requires { Kernel::most_shared_memory; }) return Kernel::most_shared_memory;
  return false;
}

struct Launcher {
  using Target = cuda::Target;
  using Scope = UseDevice;  // around several launches of one run

  template <class Kernel>
  static void launch(gpu::Grid grid, const typename Kernel::Parameters& parameters,
                     gpu::Where where) {
    static_assert(Kernel::threads % 64 == 0 && Kernel::threads <= gpu::most_threads_of_block);
    static_assert(Kernel::shared_bytes <= gpu::shared_limit<Kernel>());
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
    const UseDevice current(where.device);
    if (Kernel::shared_bytes > 48 << 10 || most_shared_memory<Kernel>())
      allow_shared_memory<entry<Kernel>>(where.device, Kernel::shared_bytes,
                                         most_shared_memory<Kernel>());
    // A kernel that follows another is brought onto the chip before that one has ended.
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y),
                          static_cast<unsigned>(grid.z));
    config.blockDim = dim3(Kernel::threads);
    config.dynamicSmemBytes = Kernel::shared_bytes;
    config.stream = static_cast<cudaStream_t>(where.stream);
    config.attrs = &early;
    config.numAttrs = follows<Kernel>() && has_early_launch(where.device) ? 1 : 0;
    launch_entry(config, entry<Kernel>, parameters);
  }
};

}  // namespace rapt::cuda
