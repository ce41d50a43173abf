// Two elements of 16 bits in a register.
#pragma once

#include <cstdint>

#include "src/gpu/target.hpp"

namespace rapt::cuda::ptx {

// The first in the low half; to nearest, ties to even.
template <class Element>
RAPT_DEVICE uint32_t pack_two(float first, float second);
template <>
RAPT_DEVICE uint32_t pack_two<F16>(float first, float second) {
  uint32_t both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
  return both;
}
template <>
RAPT_DEVICE uint32_t pack_two<BF16>(float first, float second) {
  uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
  return both;
}

}  // namespace rapt::cuda::ptx
