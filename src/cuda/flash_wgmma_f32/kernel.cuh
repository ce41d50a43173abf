// flash_wgmma_f32: f32 on Hopper's tensor cores, in three products of TF32 with the accuracy of
// f32.
//
// Rows, softmax and results are flash_mma's (block_rows.hpp); the products are those of whole
// warpgroups, whose right operands lie in shared memory (score_mma.cuh, output_mma.cuh). A
// warpgroup of its own prepares them, while one or two compute:
//
//   producer: for each tile of keys              consumers: for each tile of keys
//     K and V have come
//     low parts of K               ── keys full ─▶   S = Q Kᵀ
//     Vᵀ from V, and low parts     ◀─ keys free ──
//     begin to load the next V     ─ values full ▶   P = 2^(S − row max)
//     begin to load the next K     ◀ values free ─   O = O · 2^(old − row max) + P V
#pragma once

#include "src/cuda/flash_wgmma_f32/consumer.cuh"
#include "src/cuda/flash_wgmma_f32/producer.cuh"
#include "src/cuda/shared_memory.hpp"

namespace rapt::cuda::flash_wgmma_f32 {

template <TileConfig config>
struct FlashWgmmaF32 {
  using Parameters = flash_mma::Parameters;
  using Storage = flash_wgmma_f32::Storage<config>;
  static constexpr int threads = Rows<config>::threads + producer_threads;
  static constexpr int blocks = Rows<config>::blocks;
  static constexpr int shared_bytes = Storage::bytes, shared_limit = most_shared_bytes_on_hopper;
  static_assert(blocks == 1 && shared_bytes + 1024 <= 228 << 10);
  using Registers = hopper::RegisterShares<Consumer<config>::groups, 72>;

  RAPT_DEVICE static void run(const Parameters& p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)  // elsewhere it is never launched
    if (Target::thread() == 0) Storage::initialize();
    Target::block_barrier();
    // The same for the whole warp, and the compiler is to know it.
    if (Target::shuffle(Target::wave(), 0) >= Storage::consumer_warps) {
      if constexpr (Registers::scarce) Registers::begin_producer();
      Producer<config>::run(p);
    } else {
      if constexpr (Registers::scarce) Registers::begin_consumer();
      Consumer<config>::run(p);
    }
#endif
  }
};

}  // namespace rapt::cuda::flash_wgmma_f32
