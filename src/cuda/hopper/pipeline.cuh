// A ring of buffers between warps that fill them, the producer, and warps that use them, the
// consumers. What goes through it is numbered from 0 on, and both sides count alike:
//
//   number   0   1   2   3   4   5  …      here with 2 stages
//   index    0   1   0   1   0   1         the buffer
//   phase    0   0   1   1   0   0         the parity of its barriers' phase
//
// Each buffer has two barriers, `full` and `free`, and each number is a phase of both:
//
//   producer   wait_free ▶ load n                        wait_free ▶ load n + stages
//                              │                             ▲
//                              ▼ full                        │ free
//   consumers              wait_full ▶ use n ▶ arrive ───────┘
//
// A barrier that nobody has arrived at passes for one whose phase of parity 1 has ended: the first
// wait for each free buffer returns at once.
#pragma once

#include "src/cuda/ptx/barrier.cuh"

namespace rapt::cuda::hopper {

template <int stages>
RAPT_DEVICE int ring_index(int number) {
  return static_cast<int>(static_cast<uint32_t>(number) % stages);
}

// Of the buffer that the number-th thing goes through; a number will do where one is wanted.
template <int stages>
struct PipelineState {
  int index;
  uint32_t phase;
  RAPT_DEVICE PipelineState(int number)
      : index(ring_index<stages>(number)), phase(static_cast<uint32_t>(number) / stages & 1) {}

  // To the next one.
  RAPT_DEVICE void advance() {
    if (++index < stages) return;
    index = 0;
    phase ^= 1;
  }

  // Where buffers are not a ring, but have things of their own, numbered for each.
  RAPT_DEVICE static PipelineState of_buffer(int buffer, int number) {
    PipelineState pipe(number);
    pipe.index = buffer;
    pipe.phase = static_cast<uint32_t>(number) & 1;
    return pipe;
  }
};

// The barriers of a ring. Its buffers lie elsewhere, since they are aligned otherwise.
template <int stages>
struct Ring {
  ptx::Barrier full[stages], free[stages];

  // How many arrive in each phase of a buffer: at `full` besides the bytes that are announced
  // there.
  RAPT_DEVICE void initialize(int buffer, int producers, int consumers) {
    full[buffer].initialize(producers);
    free[buffer].initialize(consumers);
  }

  RAPT_DEVICE void wait_free(PipelineState<stages> pipe) { free[pipe.index].wait(pipe.phase ^ 1); }
  RAPT_DEVICE void wait_full(PipelineState<stages> pipe) { full[pipe.index].wait(pipe.phase); }
  RAPT_DEVICE ptx::Barrier& free_of(int number) { return free[ring_index<stages>(number)]; }
};

}  // namespace rapt::cuda::hopper
