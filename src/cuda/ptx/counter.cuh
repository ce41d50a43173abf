// Counters in global memory by which blocks tell each other what is done: what a thread did before
// it counts is there for those who see the count, bulk copies too.
#pragma once

#include <cstdint>

#include "src/gpu/target.hpp"

namespace rapt::cuda::ptx {

RAPT_DEVICE void count_up(uint32_t* counter) {
  asm volatile("fence.proxy.async; red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter)
               : "memory");
}

// Until the counter has reached `count`.
RAPT_DEVICE void wait_for_count(const uint32_t* counter, uint32_t count) {
  uint32_t now;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(counter) : "memory");
  } while (now < count);
  asm volatile("fence.proxy.async;" ::: "memory");
}

}  // namespace rapt::cuda::ptx
