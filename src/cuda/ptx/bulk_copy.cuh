// Bulk copies: contiguous bytes between global and shared memory, without a tensor map. Addresses
// and sizes are multiples of 16 bytes. One thread does.
#pragma once

#include "src/cuda/ptx/barrier.cuh"

namespace rapt::cuda::ptx {

// `barrier` hears of each byte as it comes: it was told to expect them.
RAPT_DEVICE void bulk_load(void* to, const void* from, int bytes, Barrier& barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(&barrier))
      : "memory");
}

// To numbers that will be added to, and are best kept in the cache.
RAPT_DEVICE uint64_t keep_in_cache() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
RAPT_DEVICE void bulk_store(float* to, const void* from, int bytes) {
  asm volatile(
      "cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], %2, %3;" ::"l"(to),
      "r"(shared_address(from)), "r"(bytes), "l"(keep_in_cache())
      : "memory");
}

// The same, added to the numbers that are there.
RAPT_DEVICE void bulk_add(float* to, const void* from, int bytes) {
  asm volatile(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.L2::cache_hint.add.f32 [%0], [%1], %2, "
      "%3;" ::"l"(to),
      "r"(shared_address(from)), "r"(bytes), "l"(keep_in_cache())
      : "memory");
}

RAPT_DEVICE void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Until what this thread has stored is out of shared memory; and until it is where it belongs.
RAPT_DEVICE void bulk_wait_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
RAPT_DEVICE void bulk_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

}  // namespace rapt::cuda::ptx
