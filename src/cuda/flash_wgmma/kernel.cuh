// flash_wgmma: attention on Hopper's tensor cores.
//
// A block stays on its multiprocessor and works through tiles of queries. One warp finds
// the next tile (work.cuh), two load, through the copy engine into rings of tiles in shared memory,
// and one may store (producer.cuh), while one to three warpgroups compute (consumer.cuh), the
// softmax of one beside the products of another.
#pragma once

#include "src/cuda/flash_wgmma/consumer.cuh"
#include "src/cuda/flash_wgmma/producer.cuh"
#include "src/cuda/ptx/registers.cuh"

namespace rapt::cuda::flash_wgmma {

template <TileConfig config, class Element>
struct Kernel {
  using Memory = Shared<config>;
  static constexpr int threads = (config.warpgroups + 1) * warpgroup_threads;
  static constexpr int shared_bytes = sizeof(Shared<config>);
  static_assert(shared_bytes <= most_shared_bytes_on_hopper);
  static_assert(!staged_in_queries<config> || config.v_dim <= config.qk_dim);

  RAPT_DEVICE static void run(const Parameters& p, Shared<config>& shared) {
    if (threadIdx.x == 0) {
      ptx::prefetch_map(p.queries);
      ptx::prefetch_map(p.keys);
      ptx::prefetch_map(p.values);
      if (staged<config> && p.output_copied) ptx::prefetch_map(p.output);
      initialize(shared);
    }
    __syncthreads();
    // The same for the whole warp, and the compiler is to know it.
    const int warpgroup = Target::shuffle(Target::thread() / warpgroup_threads, 0);
    if (warpgroup == config.warpgroups) {
      ptx::keep_registers<loading_registers(config.warpgroups)>();
      const int warp = Target::wave() % 4;
      if (warp == 0) KeyLoader<config>(p, shared).run();
      if (warp == 1) ValueLoader<config>(p, shared).run();
      if (warp == 2 && Target::lane() == 0) Scheduler<config>(p, shared).run();
      if constexpr (staged<config>)
        if (warp == 3 && Target::lane() == 0) OutputStorer<config>(p, shared).run();
    } else {
      ptx::take_registers<computing_registers(config.warpgroups)>();
      Consumer<config, Element>(p, shared, warpgroup).run();
    }
  }

 private:
  RAPT_DEVICE static void initialize(Shared<config>& shared) {
    constexpr int warps = config.warpgroups * 4;
    for (int i = 0; i < warps; ++i) shared.sums_aside[i] = 0;
    for (int i = 0; i < config.query_buffers; ++i) {
      shared.queries_full[i].initialize(1);
      shared.queries_free[i].initialize(staged_in_queries<config> ? config.warpgroups : warps);
    }
    for (int i = 0; i < config.stages; ++i) {
      shared.keys_full[i].initialize(1);
      shared.keys_free[i].initialize(warps);
      shared.values_full[i].initialize(1);
      shared.values_free[i].initialize(warps);
    }
    for (int i = 0; i < config.warpgroups; ++i) {
      shared.biases_full[i].initialize(1);
      shared.biases_free[i].initialize(4);
      shared.output_there[i].initialize(4);
      shared.output_gone[i].initialize(1);
    }
    shared.values_landed.initialize(1);
    shared.assignment_wanted.initialize(1);
    for (int i = 0; i < assignment_slots; ++i) shared.assignment_there[i].initialize(1);
    ptx::fence_barriers();
  }
};

template <class Kernel>
__global__ void __launch_bounds__(Kernel::threads, 1)
    entry(const __grid_constant__ Parameters parameters) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)  // elsewhere it is never launched
  extern __shared__ __align__(1024) unsigned char memory[];
  Kernel::run(parameters, *reinterpret_cast<Kernel::Memory*>(memory));
#endif
}

}  // namespace rapt::cuda::flash_wgmma
