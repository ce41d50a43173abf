// TMA: boxes of a tensor, described by a tensor map, between global and shared memory.
// What lies outside the tensor arrives as zeros, and counts as bytes all the same; it is not
// written.
#pragma once

#include <cuda.h>

#include "src/cuda/ptx/barrier.cuh"

namespace rapt::cuda::ptx {

RAPT_DEVICE void tma_prefetch(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// Coordinates count elements, innermost axis first. The swizzle follows the bits of the address: a
// box may begin at any row of a tile that is aligned to 1024 bytes.
RAPT_DEVICE void tma_load(const CUtensorMap& map, void* to, Barrier& barrier, int x, int y, int z,
                          int w) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(&barrier)), "r"(x), "r"(y), "r"(z), "r"(w)
      : "memory");
}
RAPT_DEVICE void tma_load(const CUtensorMap& map, void* to, Barrier& barrier, int x, int y, int z,
                          int w, int v) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(&barrier)), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v)
      : "memory");
}

RAPT_DEVICE void tma_store(const CUtensorMap& map, const void* from, int x, int y, int z, int w,
                           int v) {
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::
          "l"(&map),
      "r"(shared_address(from)), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v)
      : "memory");
}
// Until the boxes that this thread has stored are out of shared memory.
RAPT_DEVICE void tma_store_wait() {
  asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;" ::: "memory");
}

}  // namespace rapt::cuda::ptx
