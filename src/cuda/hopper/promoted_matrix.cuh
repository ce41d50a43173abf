// Long sums of a warpgroup's products: the tensor cores cut sums off where others round, so that
// those of thousands of rows would drift towards 0. Now and then they are promoted, in memory of
// the thread, and begin again at 0: too seldom to take registers from a loop, which is why the
// array is indexed by what the compiler does not know.
#pragma once

#include "src/cuda/target.cuh"

namespace rapt::cuda::hopper {

template <int n>
class PromotedMatrix {
 public:
  RAPT_DEVICE void take(float (&sums)[n][4], bool first_time) {
    for_each(sums, [&](float& promoted, float& sum) {
      promoted = first_time ? sum : promoted + sum;
      sum = 0;
    });
  }
  // Rows are multiplied by `factor`: the thread's first row, and the one 8 further down.
  RAPT_DEVICE void scale(const float (&factor)[2]) {
    const int first = Target::unknown(0);
    RAPT_UNROLL
    for (int i = 0; i < 4 * n; ++i) promoted_[first + i] *= factor[i % 4 / 2];
  }
  RAPT_DEVICE void join(float (&sums)[n][4]) {
    for_each(sums, [](float& promoted, float& sum) { sum += promoted; });
  }

 private:
  template <class Function>
  RAPT_DEVICE void for_each(float (&sums)[n][4], Function function) {
    const int first = Target::unknown(0);
    RAPT_UNROLL
    for (int i = 0; i < 4 * n; ++i) function(promoted_[first + i], sums[i / 4][i % 4]);
  }

  float promoted_[4 * n];
};

}  // namespace rapt::cuda::hopper
