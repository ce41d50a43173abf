// flash_wgmma: attention on Hopper's tensor cores.
//
// A block stays on its multiprocessor and goes through work tiles, each with its tiles of keys. One
// warpgroup has roles of a warp each, one to three compute, the softmax of one beside the products
// of another:
//
//   tile scheduler   which work tile is next (tile_scheduler.cuh)
//        │ tile infos
//        ▼
//   producer         Q and K: KeyLoader; biases and V: ValueLoader (producer.cuh)
//        │ query, key and value rings, by TMA
//        ▼
//   consumers        S = Q Kᵀ ▶ P = softmax of S ▶ O += P V (consumer.cuh)
//        │ output, staged in shared memory
//        ▼
//   storer           O to where it belongs, by TMA (storer.cuh)
//
// They meet at barriers of rings alone (hopper/pipeline.cuh), never at one of the whole block.
#pragma once

#include "src/cuda/flash_wgmma/consumer.cuh"
#include "src/cuda/flash_wgmma/producer.cuh"
#include "src/cuda/flash_wgmma/storer.cuh"
#include "src/cuda/flash_wgmma/tile_scheduler.cuh"
#include "src/cuda/shared_memory.hpp"

namespace rapt::cuda::flash_wgmma {

template <TileConfig config, class Element>
struct FlashWgmma {
  using Memory = SharedStorage<config>;
  static constexpr int threads = (config.warpgroups + 1) * hopper::warpgroup_threads;
  static constexpr int shared_bytes = sizeof(SharedStorage<config>);
  static_assert(shared_bytes <= most_shared_bytes_on_hopper);
  static_assert(!staged_in_queries<config> || config.v_dim <= config.qk_dim);

  RAPT_DEVICE static void run(const Parameters& p, SharedStorage<config>& shared) {
    if (threadIdx.x == 0) {
      ptx::tma_prefetch(p.queries);
      ptx::tma_prefetch(p.keys);
      ptx::tma_prefetch(p.values);
      if (staged<config> && p.output_by_tma) ptx::tma_prefetch(p.output);
      shared.initialize();
    }
    __syncthreads();
    // The same for the whole warp, and the compiler is to know it.
    const int warpgroup = Target::shuffle(Target::thread() / hopper::warpgroup_threads, 0);
    if (warpgroup == config.warpgroups) {
      Registers<config>::begin_producer();
      const int warp = Target::wave() % 4;
      if (warp == 0) KeyLoader<config>(p, shared).run();
      if (warp == 1) ValueLoader<config>(p, shared).run();
      if (warp == 2 && Target::lane() == 0) schedule_tiles(p, shared);
      if constexpr (staged<config>)
        if (warp == 3 && Target::lane() == 0) OutputStorer<config>(p, shared).run();
    } else {
      Registers<config>::begin_consumer();
      Consumer<config, Element>(p, shared, warpgroup).run();
    }
  }
};

template <class Kernel>
__global__ void __launch_bounds__(Kernel::threads, 1)
    entry(const __grid_constant__ Parameters parameters) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)  // elsewhere it is never launched
  Kernel::run(parameters, *reinterpret_cast<Kernel::Memory*>(block_memory));
#endif
}

}  // namespace rapt::cuda::flash_wgmma
