#include "src/cpu/naive_rows.hpp"

#include <algorithm>

#include "src/core/float16.hpp"
#include "src/cpu/vector_clones.hpp"

namespace rapt {

using semantics::Index;

namespace {

constexpr Index lanes = 16;
// Terms of wide heads that are added one after another.
constexpr Index most_terms = 8;

}  // namespace

RAPT_VECTOR_CLONES void dots_with_key(const float* q, const float* k, Index rows, Index dim,
                                      float* dots) {
  for (Index r = 0; r < rows; ++r, q += dim) {
    double sum = 0;
    Index d = 0;
    while (d + lanes <= dim) {
      float partial[lanes] = {};
      const Index end = std::min(d + most_terms * lanes, dim);
      for (; d + lanes <= end; d += lanes) {
        for (Index lane = 0; lane < lanes; ++lane) partial[lane] += q[d + lane] * k[d + lane];
      }
      float quarter[4];
      for (Index i = 0; i < 4; ++i)
        quarter[i] = (partial[i] + partial[i + 4]) + (partial[i + 8] + partial[i + 12]);
      sum += (quarter[0] + quarter[1]) + (quarter[2] + quarter[3]);
    }
    for (; d < dim; ++d) sum += double{q[d]} * k[d];
    dots[r] = static_cast<float>(sum);
  }
}

RAPT_VECTOR_CLONES void add_weighted_value(const float* weights, Index weight_stride,
                                           const float* v, Index rows, Index dim, float* sums) {
  for (Index r = 0; r < rows; ++r, sums += dim) {
    const float weight = weights[r * weight_stride];
    for (Index d = 0; d < dim; ++d) sums[d] += weight * v[d];
  }
}

RAPT_VECTOR_CLONES void add_with_rests(const float* __restrict partial, Index count,
                                       float* __restrict sums, float* __restrict rests) {
  for (Index i = 0; i < count; ++i) {
    const float next = sums[i] + partial[i], added = next - sums[i];
    rests[i] += (sums[i] - (next - added)) + (partial[i] - added);
    sums[i] = next;
  }
}

RAPT_VECTOR_CLONES void widen(const F16* from, Index count, float* to) {
  for (Index i = 0; i < count; ++i) to[i] = to_float(from[i]);
}
RAPT_VECTOR_CLONES void widen(const BF16* from, Index count, float* to) {
  for (Index i = 0; i < count; ++i) to[i] = to_float(from[i]);
}
void widen(const float* from, Index count, float* to) { std::copy_n(from, count, to); }

}  // namespace rapt
