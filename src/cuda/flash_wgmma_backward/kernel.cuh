// flash_wgmma_backward: gradients of attention on Hopper's tensor cores, with the same bits on
// every run.
//
// A block stays on its multiprocessor and goes through work tiles: 80 to 128 keys of a kv head,
// whose dK and dV stay in registers while tiles of queries pass by. dQ is added to sums in memory,
// in an order that is known beforehand (order.cuh).
//
//   producer     K, V, and step after step Q, dO and two numbers a row, by TMA (producer.cuh)
//        │ rings
//        ▼
//   consumers    Sᵀ = K Qᵀ ▶ Pᵀ;  dPᵀ = V dOᵀ ▶ dSᵀ;  dV += Pᵀ dO;  dK += dSᵀ Q;  dQ = dS K
//        │ dQ, f32 in shared memory     (consumer.cuh; above 128 dims wide_consumer.cuh)
//        ▼
//   storers      add it in memory when its turn has come (storer.cuh)
//
// Before it, D and the exponents of lse are worked out for every row; after it, dq is brought to
// its type and place (rows.cuh).
#pragma once

#include "src/cuda/flash_wgmma_backward/consumer.cuh"
#include "src/cuda/flash_wgmma_backward/producer.cuh"
#include "src/cuda/flash_wgmma_backward/storer.cuh"
#include "src/cuda/flash_wgmma_backward/wide_consumer.cuh"
#include "src/cuda/shared_memory.hpp"

namespace rapt::cuda::flash_wgmma_backward {

template <TileConfig config, class Element>
struct FlashWgmmaBackward {
  using Memory = SharedStorage<config>;
  static constexpr int threads = (config.warpgroups + 1) * hopper::warpgroup_threads;
  static constexpr int shared_bytes = sizeof(SharedStorage<config>);
  static_assert(shared_bytes <= most_shared_bytes_on_hopper);

  RAPT_DEVICE static void run(const Parameters& p, SharedStorage<config>& shared) {
    if (threadIdx.x == 0) {
      ptx::tma_prefetch(p.queries);
      ptx::tma_prefetch(p.keys);
      ptx::tma_prefetch(p.values);
      ptx::tma_prefetch(p.dout);
      shared.initialize();
    }
    __syncthreads();
    // The same for the whole warp, and the compiler is to know it.
    const int warpgroup = Target::shuffle(Target::thread() / hopper::warpgroup_threads, 0);
    if (warpgroup == config.warpgroups) {
      Registers<config>::begin_producer();
      const int warp = Target::wave() % 4;
      if (warp == 0) Producer<config>(p, shared).run();
      if (warp > 0 && warp <= config.storers) Storer<config>(p, shared, warp - 1).run();
    } else {
      Registers<config>::begin_consumer();
      if constexpr (config.splits_dims())
        WideConsumer<config, Element>(p, shared, warpgroup).run();
      else
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

}  // namespace rapt::cuda::flash_wgmma_backward
