// How the registers of a multiprocessor are shared out between a warpgroup that loads, the
// producer, and those that compute, the consumers.
#pragma once

#include "src/cuda/ptx/registers.cuh"

namespace rapt::cuda::hopper {

inline constexpr int warpgroup_threads = 128, warpgroup_rows = 64;  // rows of a wgmma

// Registers change hands in eights: a block starts with the same number for every thread, and the
// producer keeps `producer_` of them for each of its threads.
template <int consumers, int producer_>
struct RegisterShares {
  static constexpr int most = 240;  // of a thread
  static constexpr int producer = producer_;

 private:
  static constexpr int at_most(int count) { return count < most ? count : most; }

 public:
  static constexpr int equal = at_most(65536 / (consumers + 1) / warpgroup_threads / 8 * 8);
  static constexpr int consumer = at_most((equal * (consumers + 1) - producer) / consumers / 8 * 8);
  // Whether consumers have less than they could use before registers change hands.
  static constexpr bool scarce = equal < most;

  // By all warps of the warpgroup.
  RAPT_DEVICE static void begin_producer() { ptx::deallocate_registers<producer>(); }
  RAPT_DEVICE static void begin_consumer() { ptx::allocate_registers<consumer>(); }
};

}  // namespace rapt::cuda::hopper
