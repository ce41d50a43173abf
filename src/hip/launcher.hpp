// Launches portable kernels on AMD GPUs.
#pragma once

#include "src/gpu/launch.hpp"
#include "src/hip/check.hpp"
#include "src/hip/target.hpp"

namespace rapt::hip {

// How many blocks share a compute unit is left to the compiler, which keeps registers few where
// that lets in more of them. Asked for Kernel::blocks, a number for NVIDIA's multiprocessors, it
// would rather put registers into memory.
template <class Kernel>
__global__ __attribute__((visibility("hidden"),
                          amdgpu_flat_work_group_size(Kernel::threads, Kernel::threads))) void
entry(const typename Kernel::Parameters parameters) {
  Kernel::run(parameters);
}

struct Launcher {
  using Target = hip::Target;
  using Scope = UseDevice;  // around several launches of one run

  template <class Kernel>
  static void launch(gpu::Grid grid, const typename Kernel::Parameters& parameters,
                     gpu::Where where) {
    static_assert(Kernel::threads % 64 == 0 && Kernel::threads <= gpu::most_threads_of_block);
    static_assert(Kernel::shared_bytes <= gpu::most_shared_bytes);
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
    const UseDevice current(where.device);
    auto* argument = const_cast<typename Kernel::Parameters*>(&parameters);
    void* arguments[] = {argument};
    require(hipLaunchKernel(reinterpret_cast<const void*>(entry<Kernel>),
                            dim3(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y),
                                 static_cast<unsigned>(grid.z)),
                            dim3(Kernel::threads), arguments, Kernel::shared_bytes,
                            static_cast<hipStream_t>(where.stream)),
            "launch a kernel");
  }
};

}  // namespace rapt::hip
