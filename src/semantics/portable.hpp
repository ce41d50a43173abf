// What lets one source compile for the host and, under nvcc or hipcc, for the device.
#pragma once

#include <stdint.h>

#if defined(__CUDACC__) || defined(__HIPCC__)
#define RAPT_HOST_DEVICE __host__ __device__ inline
#else
#define RAPT_HOST_DEVICE inline
#endif

namespace rapt::semantics {

using Index = int64_t;

RAPT_HOST_DEVICE Index smaller(Index a, Index b) { return a < b ? a : b; }
RAPT_HOST_DEVICE Index larger(Index a, Index b) { return a > b ? a : b; }
RAPT_HOST_DEVICE Index clamp(Index value, Index low, Index high) {
  return smaller(larger(value, low), high);
}

// How many times `by` covers `count`, and the multiple of `to` that does.
RAPT_HOST_DEVICE Index divided_up(Index count, Index by) { return (count + by - 1) / by; }
RAPT_HOST_DEVICE Index rounded_up(Index count, Index to) { return divided_up(count, to) * to; }

}  // namespace rapt::semantics
