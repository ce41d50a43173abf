// Products of bf16 tiles by vectors: an instruction multiplies two neighbouring elements of a row
// of A with the pairs of sixteen columns of B, and adds both products to sixteen sums. Rows are
// taken eleven or ten at a time, so that their sums of 32 columns stay in registers:
//
//              B   k │ ■■■■■■■■■■■■■■■■ ■■■■■■■■■■■■■■■■    two vectors of 16 pairs
//        k           ▼
//   A  ┌ ▪     ▪ is repeated sixteen times, for both
//      │ ▪
//
// `Dot` is AVX-512's instruction for that, or a model of it in the tests.
//
// Included once per target by files that include hwy/foreach_target.h.
#if defined(RAPT_DOT_PRODUCTS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef RAPT_DOT_PRODUCTS_INL
#undef RAPT_DOT_PRODUCTS_INL
#else
#define RAPT_DOT_PRODUCTS_INL
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "src/cpu/engine_bf16_softmax-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace rapt::HWY_NAMESPACE {

using SixteenFloats = float __attribute__((vector_size(64)));
using SixteenPairs = std::uint32_t __attribute__((vector_size(64)));  // of bf16

template <class Dot>
struct DotProducts : TileShape {
  static void enter() {}
  static void leave() {}

  // As AmxProducts has it. Nothing is gained by other work beside it.
  template <Into into, class Beside>
  static HWY_INLINE void multiply(const std::byte* a, const std::byte* b, Index b_stride,
                                  Index steps, float* sums, Index stride, Beside) {
    multiply_rows<into, 11>(a, b, b_stride, steps, sums, stride);
    multiply_rows<into, 11>(a + 11 * row_bytes, b, b_stride, steps, sums + 11 * stride, stride);
    multiply_rows<into, 10>(a + 22 * row_bytes, b, b_stride, steps, sums + 22 * stride, stride);
  }

 private:
  static constexpr Index row_bytes = step * 2, pair_bytes = 4;

  template <Into into, int rows>
  static HWY_NOINLINE void multiply_rows(const std::byte* a, const std::byte* b, Index b_stride,
                                         Index steps, float* sums, Index stride) {
    SixteenFloats left[rows], right[rows];
#pragma GCC unroll 16
    for (int row = 0; row < rows; ++row) {
      if constexpr (into == Into::add) {
        std::memcpy(&left[row], sums + row * stride, sizeof left[row]);
        std::memcpy(&right[row], sums + row * stride + tile_rows, sizeof right[row]);
      } else {
        left[row] = right[row] = SixteenFloats{};
      }
    }
    for (Index i = 0; i < steps; ++i, a += group_step_bytes, b += tile_bytes) {
      for (Index pair = 0; pair < step / 2; ++pair) {
        SixteenPairs left_pairs, right_pairs;
        std::memcpy(&left_pairs, b + pair * row_bytes, sizeof left_pairs);
        std::memcpy(&right_pairs, b + b_stride + pair * row_bytes, sizeof right_pairs);
#pragma GCC unroll 16
        for (int row = 0; row < rows; ++row) {
          std::uint32_t element;
          std::memcpy(&element, a + row * row_bytes + pair * pair_bytes, sizeof element);
          const SixteenPairs repeated = SixteenPairs{} + element;
          Dot::add(repeated, left_pairs, left[row]);
          Dot::add(repeated, right_pairs, right[row]);
        }
      }
    }
#pragma GCC unroll 16
    for (int row = 0; row < rows; ++row) {
      std::memcpy(sums + row * stride, &left[row], sizeof left[row]);
      std::memcpy(sums + row * stride + tile_rows, &right[row], sizeof right[row]);
    }
  }
};

}  // namespace rapt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
