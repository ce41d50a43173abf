// Products of a warp on tensor cores: c (16, 8) += a (16, k) · b (k, 8), sums in f32; k is 8 for
// TF32 and 16 for 16-bit elements. With g = lane / 4 and t = lane % 4, in units of 4 bytes a lane
// holds
//
//   a   (g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4)
//   b   (t, g), (t + 4, g), as rows of k
//   c   (g, 2 t), (g, 2 t + 1), (g + 8, 2 t), (g + 8, 2 t + 1)
//
// Sums are cut off, not rounded, so that long ones drift towards 0. Of TF32 operands the low 13
// bits are ignored.
#pragma once

#include <cstdint>

#include "src/gpu/target.hpp"

namespace rapt::cuda::ptx {

#define RAPT_MMA(shape_and_types)                                        \
  asm("mma.sync.aligned." shape_and_types                                \
      " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
      : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)                           \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))

template <class Element>
RAPT_DEVICE void mma(float& c0, float& c1, float& c2, float& c3, const uint32_t (&a)[4],
                     uint32_t b0, uint32_t b1);
template <>
RAPT_DEVICE void mma<float>(float& c0, float& c1, float& c2, float& c3, const uint32_t (&a)[4],
                            uint32_t b0, uint32_t b1) {
  RAPT_MMA("m16n8k8.row.col.f32.tf32.tf32.f32");
}
template <>
RAPT_DEVICE void mma<F16>(float& c0, float& c1, float& c2, float& c3, const uint32_t (&a)[4],
                          uint32_t b0, uint32_t b1) {
  RAPT_MMA("m16n8k16.row.col.f32.f16.f16.f32");
}
template <>
RAPT_DEVICE void mma<BF16>(float& c0, float& c1, float& c2, float& c3, const uint32_t (&a)[4],
                           uint32_t b0, uint32_t b1) {
  RAPT_MMA("m16n8k16.row.col.f32.bf16.bf16.f32");
}

#undef RAPT_MMA

// What a product does not take of an f32.
RAPT_DEVICE uint32_t low_part_of_tf32(uint32_t x) {
  return __float_as_uint(__uint_as_float(x) - __uint_as_float(x & 0xffffe000u));
}

}  // namespace rapt::cuda::ptx
