#include "src/cpu/long_sums.hpp"

#include <algorithm>

namespace rapt {

using semantics::Index;

void LongSums::set_aside(const RowSums& sums) {
  for (Index row = 0; row < sums.rows; ++row) {
    double* earlier = memory + row * (3 + sums.out_stride);
    if (!any) std::fill_n(earlier, 3 + sums.out_stride, 0.0);
    const double factor = any ? factor_between(earlier[0], sums.reference[row]) : 0;
    float* out = sums.out + row * sums.out_stride;
    earlier[0] = sums.reference[row];
    earlier[1] = earlier[1] * factor + sums.row_sum[row];
    earlier[2] = earlier[2] * factor + sums.divisor[row];
    for (Index i = 0; i < sums.out_stride; ++i) earlier[3 + i] = earlier[3 + i] * factor + out[i];
    sums.row_sum[row] = sums.divisor[row] = 0;
    std::fill_n(out, sums.out_stride, 0.0f);
  }
  any = true;
}

void LongSums::join(const RowSums& sums) const {
  if (!any) return;
  for (Index row = 0; row < sums.rows; ++row) {
    const double* earlier = memory + row * (3 + sums.out_stride);
    const double factor = factor_between(earlier[0], sums.reference[row]);
    float* out = sums.out + row * sums.out_stride;
    const double sum = earlier[1] * factor + sums.row_sum[row];
    const double divisor = earlier[2] * factor + sums.divisor[row];  // which may be the same memory
    sums.row_sum[row] = static_cast<float>(sum);
    sums.divisor[row] = static_cast<float>(divisor);
    for (Index i = 0; i < sums.out_stride; ++i)
      out[i] = static_cast<float>(earlier[3 + i] * factor + out[i]);
  }
}

}  // namespace rapt
