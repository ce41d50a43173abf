// What products of TF32 leave out, on the model.
#pragma once

#include "src/cuda/ptx/shared.cuh"

namespace rapt::cuda::ptx {

inline uint32_t low_part_of_tf32(uint32_t x) {
  return __float_as_uint(__uint_as_float(x) - __uint_as_float(x & 0xffffe000u));
}

}  // namespace rapt::cuda::ptx
