// The oracle: attention in fp64, one row at a time, straight from the formulas. Everything is
// compared with it.
#pragma once

#include <span>

#include "rapt/rapt.hpp"
#include "src/core/kernel.hpp"
#include "src/semantics/call.hpp"

namespace rapt {

// One row of the result: a query of one head of one sequence.
struct Row {
  semantics::Sequence sequence;
  semantics::Index head, query;
};

// The scores of every key of a row's sequence, −inf where it may not attend. Real is double for the
// oracle itself; float gives what any f32 kernel could compute.
template <class Real>
void scores_of_row(const semantics::Call& call, DType dtype, const Row& row,
                   std::span<Real> scores);

// out: v_dim values. scores: room for kv_len values. Returns the row's lse.
double oracle_row(const semantics::Call& call, DType dtype, const Row& row, std::span<double> out,
                  std::span<double> scores);

// Element `index` of a tensor of that type.
double element(const void* data, DType dtype, semantics::Index index);

extern const Kernel cpu_oracle;

}  // namespace rapt
