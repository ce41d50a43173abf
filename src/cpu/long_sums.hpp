// Sums of rows over many tiles of keys.
//
// Added one after another, n equal terms may end n/3 roundings off, since all go the same way. A
// tile's sums are short. Those of some tiles are added in f32, then set aside in f64, and begin
// again at 0.
#pragma once

#include "src/cpu/row_operations.hpp"

namespace rapt {

// Of some rows: sums of weights, and out (rows, out_stride), relative to 2^reference. The divisor
// is the sum of weights as they were multiplied with values: where they were rounded, so is each of
// its terms, and what rounding takes from weights that are alike it takes from both. Else it is
// row_sum.
struct RowSums {
  semantics::Index rows, out_stride;
  float *reference, *row_sum, *divisor, *out;

  RowState state(semantics::Index row) const { return {reference[row], row_sum[row]}; }
  RowState state_of_out(semantics::Index row) const { return {reference[row], divisor[row]}; }
};

struct LongSums {
  double* memory;  // (rows, 3 + out_stride): reference, sum, divisor, out; null: rows are short
  bool any = false;

  static semantics::Index bytes(semantics::Index rows, semantics::Index out_stride) {
    return rows * (3 + out_stride) * 8;
  }
  void set_aside(const RowSums& sums);
  // What was set aside joins the sums again.
  void join(const RowSums& sums) const;
};

}  // namespace rapt
