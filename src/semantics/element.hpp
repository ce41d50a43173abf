// f16 and bf16 elements as bit patterns. How they convert depends on who computes: core/float16.hpp
// for the host, a target's functions on a GPU.
#pragma once

#include <stdint.h>

namespace rapt {

struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};

}  // namespace rapt
