// Whether arguments are those a problem describes.
#pragma once

#include "rapt/rapt.hpp"

namespace rapt {

// Throws Error at the first tensor that is missing, superfluous, of another type, size or stride,
// null or misaligned. Allocates nothing when all is well. Looks at no data.
void match(const Problem& problem, const Arguments& arguments);

// Throws Error at the first start, length or page index that is out of place. `arguments` must
// match; their index data must be in host memory.
void check_index_data(const Problem& problem, const Arguments& arguments);

// Whether a bias or mask is the same all along an axis: by its size, or by a stride of 0.
bool is_broadcast(const Tensor& tensor, std::size_t axis);

}  // namespace rapt
