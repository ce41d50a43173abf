// CUDA's words for C++, as device code uses them: the thread's place, and operations of a warp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "tests/hopper/machine.hpp"

#define __global__
#define __launch_bounds__(...)
#define __grid_constant__
#define __CUDA_ARCH_FEAT_SM90_ALL 1

struct uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

// Of the running thread.
struct ThreadPlace {
  unsigned x, y, z;
};
extern thread_local ThreadPlace threadIdx, blockIdx, gridDim, blockDim;

inline unsigned __float_as_uint(float x) {
  unsigned bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
inline float __uint_as_float(unsigned bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
using std::max;
using std::min;
inline float __fdividef(float a, float b) { return a / b; }
inline unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned count) {
  const std::uint64_t both = std::uint64_t{high} << 32 | low;
  return static_cast<unsigned>(both << std::min(count, 32u) >> 32);
}
template <class T>
T __ldg(const T* from) {
  return *from;
}
inline int atomicAdd(int* to, int value) {  // one thread runs at a time
  const int old = *to;
  *to += value;
  return old;
}

inline void __syncthreads() {
  rapt::model::arrive_at_named_barrier(0, static_cast<int>(blockDim.x), true);
}
inline void __syncwarp() {
  rapt::model::together(
      "__syncwarp", [](void* const*) {}, nullptr);
}

namespace rapt::model {

// All lanes get what `join` makes of all their values, one after another.
template <class T, class Join>
T join_over_warp(const char* what, T value, Join) {
  together(
      what,
      [](void* const* lanes) {
        T joined = *static_cast<const T*>(lanes[0]);
        for (int i = 1; i < warp_threads; ++i) joined = Join()(joined, *static_cast<T*>(lanes[i]));
        for (int i = 0; i < warp_threads; ++i) *static_cast<T*>(lanes[i]) = joined;
      },
      &value);
  return value;
}

// The value of lane `from`.
template <class T>
T shuffle(T value, int from) {
  struct Operand {
    T value;
    int from;
    T result;
  } operand = {value, from, value};
  together(
      "a shuffle",
      [](void* const* lanes) {
        for (int i = 0; i < warp_threads; ++i) {
          auto& lane = *static_cast<Operand*>(lanes[i]);
          if (lane.from < 0 || lane.from >= warp_threads) fail("a shuffle from a lane that is not");
          lane.result = static_cast<const Operand*>(lanes[lane.from])->value;
        }
      },
      &operand);
  return operand.result;
}

}  // namespace rapt::model

inline bool __any_sync(unsigned, bool value) {
  return rapt::model::join_over_warp("__any_sync", value, [](bool a, bool b) { return a || b; });
}
inline bool __all_sync(unsigned, bool value) {
  return rapt::model::join_over_warp("__all_sync", value, [](bool a, bool b) { return a && b; });
}
inline unsigned __reduce_or_sync(unsigned, unsigned value) {
  return rapt::model::join_over_warp("__reduce_or_sync", value,
                                     [](unsigned a, unsigned b) { return a | b; });
}
inline unsigned __reduce_add_sync(unsigned, unsigned value) {
  return rapt::model::join_over_warp("__reduce_add_sync", value,
                                     [](unsigned a, unsigned b) { return a + b; });
}
inline int __reduce_max_sync(unsigned, int value) {
  return rapt::model::join_over_warp("__reduce_max_sync", value,
                                     [](int a, int b) { return a > b ? a : b; });
}
inline int __reduce_min_sync(unsigned, int value) {
  return rapt::model::join_over_warp("__reduce_min_sync", value,
                                     [](int a, int b) { return a < b ? a : b; });
}
