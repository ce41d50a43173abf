// Products of a warpgroup, on the model.
#pragma once

#include <type_traits>

#include "src/cuda/ptx/shared.cuh"

namespace rapt::cuda::ptx {

template <class Element, int n>
struct WgmmaInstruction {
  using Type = model::Product::Type;
  static constexpr Type type = std::is_same_v<Element, F16>    ? Type::f16
                               : std::is_same_v<Element, BF16> ? Type::bf16
                                                               : Type::tf32;

  template <int a_is_mn_major = 0, int b_is_mn_major = 0>
  static void from_shared(float (&d)[n / 8][4], uint64_t a, uint64_t b, bool add) {
    model::begin_product(
        {type, n, &d[0][0], nullptr, a, b, a_is_mn_major != 0, b_is_mn_major != 0, add});
  }
  template <int b_is_mn_major = 0>
  static void from_registers(float (&d)[n / 8][4], const uint32_t (&a)[4], uint64_t b, bool add) {
    model::begin_product({type, n, &d[0][0], a, 0, b, false, b_is_mn_major != 0, add});
  }
};

}  // namespace rapt::cuda::ptx
