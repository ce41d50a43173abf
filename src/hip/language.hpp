// What HIP has beyond C++, included before everything else in each file that is compiled for a GPU.
// ROCm's headers and device libraries would bring more; they are left out, so that any clang
// compiles these files for any architecture it knows.
#pragma once

#include <stdlib.h>  // before all others: clang's own <new> calls malloc

#include <hip/hip_runtime_api.h>
#include <math.h>

#include "src/hip/tanh.hpp"

// Beside the host's functions of the same names: device code calls these (semantics/score.hpp).
__device__ inline float tanh(float x) {
  return rapt::hip::hyperbolic_tangent(x, [](float y) { return __builtin_amdgcn_exp2f(y); });
}
__device__ inline float exp(float x) { return __builtin_amdgcn_exp2f(x * 1.4426950408889634f); }
__device__ inline float fabs(float x) { return __builtin_fabsf(x); }
