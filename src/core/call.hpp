// From arguments to the plain Call that kernels work from, and from a run-time element type to a
// compile-time one.
#pragma once

#include "rapt/rapt.hpp"
#include "src/core/float16.hpp"
#include "src/core/tensors.hpp"
#include "src/semantics/call.hpp"
#include "src/semantics/gradients.hpp"

namespace rapt {

// All of a call but its pointers and the sizes of one run.
semantics::Call planned_call(const Problem& problem);

// `arguments` match the problem of the planned call, with these sizes.
semantics::Call make_call(const semantics::Call& planned, const Sizes& sizes,
                          const Arguments& arguments);

// At once, for arguments of the sizes that the problem has.
semantics::Call make_call(const Problem& problem, const Arguments& arguments);

// Likewise, of a backward problem.
semantics::Gradients planned_gradients(const Problem& problem);
semantics::Gradients make_gradients(const semantics::Gradients& planned,
                                    const Arguments& arguments);
semantics::Gradients make_gradients(const Problem& problem, const Arguments& arguments);

// Calls function(Element{}) with the C++ type of an f32, f16 or bf16 element.
template <class Function>
decltype(auto) with_element_type(DType dtype, Function&& function) {
  switch (dtype) {
    case DType::f16: return function(F16{});
    case DType::bf16: return function(BF16{});
    default: return function(float{});
  }
}

// The bias of one pair; 0 if there is none.
template <class Element>
float bias_at(const semantics::Call& call, semantics::Index sequence, semantics::Index head,
              semantics::Index query, semantics::Index key) {
  if (!call.bias) return 0;
  const semantics::Index offset =
      semantics::pair_offset(call.bias_stride, sequence, head, query, key);
  return call.bias_is_f32 ? static_cast<const float*>(call.bias)[offset]
                          : to_float(static_cast<const Element*>(call.bias)[offset]);
}

// Whether the mask lets a pair attend; true if there is none.
inline bool mask_at(const semantics::Call& call, semantics::Index sequence, semantics::Index head,
                    semantics::Index query, semantics::Index key) {
  return !call.mask ||
         call.mask[semantics::pair_offset(call.mask_stride, sequence, head, query, key)] != 0;
}

}  // namespace rapt
