// Copies from global to shared memory that go on while the thread works.
#pragma once

#include <cstdint>

#include "src/gpu/target.hpp"

namespace rapt::cuda::ptx {

// 16 bytes; zeros where they are not wanted, and then `from` is not read.
RAPT_DEVICE void cp_async(uint32_t to, const void* from, bool wanted) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(wanted ? 16 : 0)
               : "memory");
}

// Those begun since the last time become a group.
RAPT_DEVICE void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Until all copies of the thread have arrived, but for the last group.
RAPT_DEVICE void cp_async_wait_previous() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }

// Until all copies of the thread have arrived.
RAPT_DEVICE void cp_async_wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

}  // namespace rapt::cuda::ptx
