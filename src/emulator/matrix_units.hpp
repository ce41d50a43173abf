// A model of matrix units, lane by lane: what becomes of fragments that lie in the lanes of a warp
// as src/gpu/target.hpp says. Products are exact, and a sum is rounded once; tensor cores cut sums
// off, so that results are the same bit by bit only where they need no more bits than an f32 has.
#pragma once

#include <cstdint>

#include "src/emulator/block.hpp"

namespace rapt::emulator {

inline constexpr int warp_lanes = 32;

struct LdmatrixOperands {
  int byte;  // of a row in shared memory
  std::uint32_t to[4];
};
void ldmatrix(std::span<Thread> lanes);
void ldmatrix_transposed(std::span<Thread> lanes);

struct MmaOperands {
  float c[4];
  std::uint32_t a[4], b[2];
};
template <class Element>
void mma(std::span<Thread> lanes);
extern template void mma<float>(std::span<Thread> lanes);
extern template void mma<F16>(std::span<Thread> lanes);
extern template void mma<BF16>(std::span<Thread> lanes);

}  // namespace rapt::emulator
