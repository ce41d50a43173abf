// Vector work for few queries: K and V are read once, straight from their storage, and every row of
// q meets them on the way.
#pragma once

#include "rapt/rapt.hpp"
#include "src/semantics/visibility.hpp"

namespace rapt {

// Rows of K or V: rows[i] is where row i begins. While row i is worked on, row i of `next` is
// fetched into the cache; null: nothing is.
struct StreamedRows {
  DType dtype;
  semantics::Index count, dim;
  const void* const* rows;
  const void* const* next;
  semantics::Index next_bytes;  // of a row
};

struct StreamOperations {
  semantics::Index lanes;  // out rows are padded to these

  void (*widen)(DType, const void* from, semantics::Index count, float* to);
  // scores[row, key] = q[row] · k[key];  q (rows, dim), scores with score_stride
  void (*dots)(const float* q, semantics::Index rows, const StreamedRows& keys, float* scores,
               semantics::Index score_stride);
  // The row's scores of `keys` become weights, and those of the rest of the first `count` keys 0;
  // returns what its out is to be multiplied by.
  float (*softmax)(float* scores, semantics::Range keys, semantics::Index count, float scale,
                   float& row_max, float& row_sum);
  // out[row] = out[row] · rescale[row] + Σ weights[row, key] · v[key];  out with out_stride
  void (*accumulate)(const float* weights, semantics::Index weight_stride, semantics::Index rows,
                     const StreamedRows& values, const float* rescale, float* out,
                     semantics::Index out_stride);
  // The first of `count` partial results becomes their sum, each times its factor.
  void (*combine)(float* partials, semantics::Index stride, const double* factors,
                  semantics::Index count, semantics::Index dim);
};

const StreamOperations& stream_operations();

}  // namespace rapt
