// Loops over head dims that cpu.naive and cpu.naive_backward share. Rows are f32, (rows, dim)
// row-major.
#pragma once

#include "src/semantics/element.hpp"
#include "src/semantics/portable.hpp"

namespace rapt {

// dots[r] = q[r] · k for each row of q.
void dots_with_key(const float* q, const float* k, semantics::Index rows, semantics::Index dim,
                   float* dots);

// sums[r] += weights[r · weight_stride] · v for each row of sums.
void add_weighted_value(const float* weights, semantics::Index weight_stride, const float* v,
                        semantics::Index rows, semantics::Index dim, float* sums);

// sums += partial; what rounding takes from them goes to the rests.
void add_with_rests(const float* __restrict partial, semantics::Index count, float* __restrict sums,
                    float* __restrict rests);

void widen(const F16* from, semantics::Index count, float* to);
void widen(const BF16* from, semantics::Index count, float* to);
void widen(const float* from, semantics::Index count, float* to);

// A row of f32 values: the tensor's own memory if it holds f32, else a widened copy in `scratch`.
inline const float* as_floats(const float* row, semantics::Index, float*) { return row; }
template <class Element>
const float* as_floats(const Element* row, semantics::Index count, float* scratch) {
  widen(row, count, scratch);
  return scratch;
}

}  // namespace rapt
