// Starts, lengths and pages: whether they stay within what they index.
#pragma once

#include "src/core/tensors.hpp"

namespace rapt {

// Throws Error at the first start, length or page index that is out of place. `arguments` match,
// with these sizes; their index data is in host memory.
void check_index_data(const Problem& problem, const Sizes& sizes, const Arguments& arguments);

}  // namespace rapt
