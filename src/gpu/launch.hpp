// From run-time values to the compile-time ones that kernels are templated on, for launching.
#pragma once

#include "rapt/dtype.hpp"
#include "src/gpu/target.hpp"

namespace rapt::gpu {

// A device by its number, and a stream of it (null: the default one).
struct Where {
  int device;
  void* stream;
};

// Calls function.operator()<Element>() with the type of an f32, f16 or bf16 element.
template <class Function>
void with_element(DType dtype, Function&& function) {
  switch (dtype) {
    case DType::f16: return function.template operator()<F16>();
    case DType::bf16: return function.template operator()<BF16>();
    default: return function.template operator()<float>();
  }
}

// Calls function.operator()<choice>() with the first choice that is not less than `least`, or with
// the last one.
template <int choice, int... more, class Function>
void with_one_of(Index least, Function&& function) {
  if constexpr (sizeof...(more) > 0) {
    if (least > choice) return with_one_of<more...>(least, function);
  }
  function.template operator()<choice>();
}

}  // namespace rapt::gpu
