// Barriers of a block in shared memory (mbarrier) and in hardware (bar), and the fence between
// ordinary stores and what TMA or the tensor cores read.
#pragma once

#include <stdint.h>

#include "src/cuda/ptx/shared.cuh"

namespace rapt::cuda::ptx {

// A phase of a Barrier ends when `arrivals` threads have arrived and all announced bytes have come.
// Phases alternate in parity; the first one's is 0.
struct alignas(8) Barrier {
  uint64_t state;

  RAPT_DEVICE void initialize(int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(this)),
                 "r"(arrivals));
  }
  RAPT_DEVICE void arrive() {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(this)) : "memory");
  }
  // Without a branch.
  RAPT_DEVICE void arrive_if(bool condition) {
    asm volatile(
        "{.reg .pred condition; setp.ne.b32 condition, %1, 0;"
        "@condition mbarrier.arrive.shared::cta.b64 _, [%0];}" ::"r"(shared_address(this)),
        "r"(int{condition})
        : "memory");
  }
  RAPT_DEVICE void arrive_and_expect(uint32_t bytes) {
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(this)),
        "r"(bytes)
        : "memory");
  }
  // Until the phase of this parity has ended.
  RAPT_DEVICE void wait(uint32_t phase) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}\n" ::"r"(shared_address(this)),
        "r"(phase)
        : "memory");
  }
};

// Makes initialized barriers known to TMA.
RAPT_DEVICE void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Between this thread's stores to shared memory and their use by TMA or tensor cores.
RAPT_DEVICE void fence_proxy_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// The block's 16 hardware barriers. `threads` counts those that wait and those that only arrive.
RAPT_DEVICE void named_barrier_sync(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
RAPT_DEVICE void named_barrier_arrive(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

}  // namespace rapt::cuda::ptx
