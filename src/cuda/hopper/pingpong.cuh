// Ping-pong: warpgroups that take turns at the tensor cores, so that the softmax of one runs beside
// the products of another.
//
//   warpgroup 0   products │ softmax           │ products │ softmax
//   warpgroup 1   softmax  │ products │ softmax           │ products
//                          ▲          ▲                   ▲
//                          turns, handed on at named barriers
#pragma once

#include "src/cuda/hopper/registers.cuh"
#include "src/cuda/ptx/barrier.cuh"

namespace rapt::cuda::hopper {

// Each warpgroup waits for its turn at a named barrier of its own, where the one before it arrives;
// barrier 0 is left to others. At the beginning the last one passes a turn to the first.
RAPT_DEVICE void wait_for_turn(int group) {
  ptx::named_barrier_sync(1 + group, 2 * warpgroup_threads);
}
RAPT_DEVICE void pass_turn_to(int group) {
  ptx::named_barrier_arrive(1 + group, 2 * warpgroup_threads);
}

}  // namespace rapt::cuda::hopper
