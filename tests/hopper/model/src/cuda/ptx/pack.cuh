// Two elements of 16 bits in a register, on the model.
#pragma once

#include <cstdint>

#include "src/core/float16.hpp"

namespace rapt::cuda::ptx {

template <class Element>
uint32_t pack_two(float first, float second) {
  return from_float<Element>(first).bits | uint32_t{from_float<Element>(second).bits} << 16;
}

}  // namespace rapt::cuda::ptx
