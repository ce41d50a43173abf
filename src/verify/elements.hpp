// Between f32 and a tensor's element type, for those outside the library's core.
#pragma once

#include <span>

#include "rapt/rapt.hpp"

namespace rapt::verify {

// Rounds to nearest even. `dtype` is f32, f16 or bf16.
void to_elements(DType dtype, std::span<const float> source, void* target);
void from_elements(DType dtype, const void* source, std::span<float> target);

}  // namespace rapt::verify
