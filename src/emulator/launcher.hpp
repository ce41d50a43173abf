// Launches portable kernels on the emulator.
#pragma once

#include "src/emulator/target.hpp"
#include "src/gpu/launch.hpp"

namespace rapt::emulator {

// Runs all blocks, on as many threads of the machine as RAPT_THREADS or the machine has. Throws
// Error if the launch exceeds what GPUs can do, or with the fault of the first block that has one.
void run_grid(const Work& work);

template <int wave_size>
struct Launcher {
  using Target = emulator::Target<wave_size>;
  struct Scope {
    explicit Scope(int) {}
  };

  template <class Kernel>
  static void launch(gpu::Grid grid, const typename Kernel::Parameters& parameters, gpu::Where) {
    static_assert(gpu::shared_limit<Kernel>() <= SharedMemory::most_bytes);
    run_grid({
        .grid = grid,
        .threads = Kernel::threads,
        .shared_bytes = Kernel::shared_bytes,
        .shared_limit = gpu::shared_limit<Kernel>(),
        .wave_size = wave_size,
        .run =
            [](const void* of_launch) {
              Kernel::run(*static_cast<const typename Kernel::Parameters*>(of_launch));
            },
        .parameters = &parameters,
    });
  }
};

}  // namespace rapt::emulator
