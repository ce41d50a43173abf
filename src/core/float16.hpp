// Exact conversions of f16 and bf16 to and from f32 on the host, written without branches so that
// loops over them vectorise.
#pragma once

#include <bit>
#include <cstdint>

#include "src/semantics/element.hpp"

namespace rapt {

inline float to_float(float value) { return value; }

inline float to_float(BF16 value) { return std::bit_cast<float>(std::uint32_t(value.bits) << 16); }

inline float to_float(F16 value) {
  // Exponent and mantissa move into place and the bias is made up for. Subnormals are whole numbers
  // of 2^-24: going through integers keeps them whatever the thread's flush-to-zero mode.
  // Infinities and NaN need the largest exponent.
  const std::uint32_t magnitude = value.bits & 0x7fffu;
  const std::uint32_t normal = (magnitude << 13) + (112u << 23);
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(
      static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f);
  std::uint32_t result = magnitude < 0x0400u ? subnormal : normal;
  result |= magnitude >= 0x7c00u ? 0x7f800000u : 0u;
  return std::bit_cast<float>(result | std::uint32_t(value.bits & 0x8000u) << 16);
}

// Rounding is to nearest, ties to even; NaN stays NaN.
template <class Element>
Element from_float(float value);

template <>
inline float from_float<float>(float value) {
  return value;
}

template <>
inline BF16 from_float<BF16>(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  const std::uint32_t quiet_nan = bits >> 16 | 0x40;
  return {std::uint16_t((bits & 0x7fffffff) > 0x7f800000 ? quiet_nan : rounded)};
}

template <>
inline F16 from_float<F16>(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffff;
  const std::uint32_t sign = bits >> 16 & 0x8000;
  // Below 2^-14 the result is subnormal: adding 0.5 lets the f32 adder round at f16's last place.
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) -
      std::bit_cast<std::uint32_t>(0.5f);
  const std::uint32_t normal = (magnitude - 0x38000000u + 0xfff + (magnitude >> 13 & 1)) >> 13;
  std::uint32_t result = magnitude < 0x38800000u ? subnormal : normal;
  result = magnitude >= 0x47800000u
               ? 0x7c00u
               : result;  // too large: infinity (65520 and up reach it by rounding)
  result = magnitude > 0x7f800000u ? 0x7e00u : result;
  return {std::uint16_t(sign | result)};
}

}  // namespace rapt
