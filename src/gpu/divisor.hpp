// Division by a number that a whole launch shares: one multiplication.
#pragma once

#include "src/semantics/portable.hpp"

namespace rapt::gpu {

// Made on the host, for dividends of 0 … 2³¹ − 1.
struct Divisor {
  int value = 1;
  uint32_t multiplier = 0x80000001;  // ⌊2^shift / value⌋ + 1
  int shift = 31;                    // 31 + ⌈log2(value)⌉

  RAPT_HOST_DEVICE int quotient(int dividend) const {
    return static_cast<int>(static_cast<uint64_t>(dividend) * multiplier >> shift);
  }
  RAPT_HOST_DEVICE int remainder(int dividend) const {
    return dividend - quotient(dividend) * value;
  }
};

// `value` is 1 … 2³¹ − 1. multiplier · value exceeds 2^shift by at most value ≤ 2^(shift − 31);
// times a dividend below 2³¹ that is less than 2^shift, so no quotient is one too many.
inline Divisor divisor(semantics::Index value) {
  const int bits = value > 1 ? 64 - __builtin_clzll(static_cast<uint64_t>(value - 1)) : 0;
  const int shift = 31 + bits;
  return {static_cast<int>(value),
          static_cast<uint32_t>((uint64_t{1} << shift) / static_cast<uint64_t>(value) + 1), shift};
}

}  // namespace rapt::gpu
