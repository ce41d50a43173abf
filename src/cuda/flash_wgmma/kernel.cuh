// flash_wgmma: attention on Hopper's tensor cores.
//
// A block stays on its multiprocessor and goes through tiles of queries. One warp finds
// the next tile (tile_scheduler.cuh), two load, through TMA into rings of tiles in shared memory,
// and one may store (producer.cuh), while one to three warpgroups compute (consumer.cuh), the
// softmax of one beside the products of another.
#pragma once

#include "src/cuda/flash_wgmma/consumer.cuh"
#include "src/cuda/flash_wgmma/producer.cuh"
#include "src/cuda/ptx/registers.cuh"

namespace rapt::cuda::flash_wgmma {

template <TileConfig config, class Element>
struct FlashWgmma {
  using Memory = SharedStorage<config>;
  static constexpr int threads = (config.warpgroups + 1) * warpgroup_threads;
  static constexpr int shared_bytes = sizeof(SharedStorage<config>);
  static_assert(shared_bytes <= most_shared_bytes_on_hopper);
  static_assert(!staged_in_queries<config> || config.v_dim <= config.qk_dim);

  RAPT_DEVICE static void run(const Parameters& p, SharedStorage<config>& shared) {
    if (threadIdx.x == 0) {
      ptx::tma_prefetch(p.queries);
      ptx::tma_prefetch(p.keys);
      ptx::tma_prefetch(p.values);
      if (staged<config> && p.output_by_tma) ptx::tma_prefetch(p.output);
      initialize(shared);
    }
    __syncthreads();
    // The same for the whole warp, and the compiler is to know it.
    const int warpgroup = Target::shuffle(Target::thread() / warpgroup_threads, 0);
    if (warpgroup == config.warpgroups) {
      ptx::deallocate_registers<producer_registers(config.warpgroups)>();
      const int warp = Target::wave() % 4;
      if (warp == 0) KeyLoader<config>(p, shared).run();
      if (warp == 1) ValueLoader<config>(p, shared).run();
      if (warp == 2 && Target::lane() == 0) TileScheduler<config>(p, shared).run();
      if constexpr (staged<config>)
        if (warp == 3 && Target::lane() == 0) OutputStorer<config>(p, shared).run();
    } else {
      ptx::allocate_registers<consumer_registers(config.warpgroups)>();
      Consumer<config, Element>(p, shared, warpgroup).run();
    }
  }

 private:
  RAPT_DEVICE static void initialize(SharedStorage<config>& shared) {
    constexpr int warps = config.warpgroups * 4;
    for (int i = 0; i < warps; ++i) shared.promoted_sums[i] = 0;
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
      shared.output_full[i].initialize(4);
      shared.output_free[i].initialize(1);
    }
    shared.values_landed.initialize(1);
    shared.tile_info_wanted.initialize(1);
    for (int i = 0; i < tile_info_stages; ++i) shared.tile_info_full[i].initialize(1);
    ptx::fence_barrier_init();
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
