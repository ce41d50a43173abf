// Problem::validate() in its two halves. Problem::of() compares the tensors' sizes with the
// problem's in between, so that a wrong size is not told as a wrong stride.
#pragma once

#include "rapt/rapt.hpp"

namespace rapt {

// Each throws Error at the first fault.
void validate_meaning(const Problem& problem);  // types, sizes, bounds
void validate_layouts(const Problem& problem);  // strides and alignment; its meaning is valid

// A probability in the steps that dropout has, 1/256; throws Error where that leaves nothing of it
// or everything.
float rounded_dropout(double probability);

}  // namespace rapt
