// Long sums that stay within the contract.
//
// Added one after another, n equal terms may end n/3 roundings off, since all go the same way:
// 300 would already miss what is promised for f32. So a sum is made of sums of a span of terms, and
// these are added with what rounding takes away kept beside them.
#pragma once

#include "src/gpu/softmax.hpp"

namespace rapt::gpu {

// Terms that may be added one after another. 16-bit results are rounded so much in the end that
// what thousands of roundings do before does not show.
template <class Element>
inline constexpr int span_of_sums = sizeof(Element) == 4 ? 128 : 8192;

// Whether a span ends between a tile of keys and the next: spans are counted from key 0.
template <class Element>
RAPT_DEVICE bool ends_span(Index key, Index next) {
  return key / span_of_sums<Element> != next / span_of_sums<Element>;
}

struct CompensatedSum {
  float sum, compensation;

  RAPT_DEVICE void scale(float factor) {
    sum *= factor;
    compensation *= factor;
  }
  RAPT_DEVICE void add(float term) {
    const float next = sum + term, added = next - sum;
    compensation += (sum - (next - added)) + (term - added);
    sum = next;
  }
  // What rounding took from an infinite sum is NaN.
  RAPT_DEVICE float total() const { return is_infinite(sum) ? sum : total_or_nan(); }
  // Where NaN will do for one that is not finite.
  RAPT_DEVICE float total_or_nan() const { return sum + compensation; }
};

// Sums of rows that leave their registers after every span, each row relative to its row max:
// promoted to a second level, as accumulators of low precision are elsewhere. They
// lie in memory of the thread, used too seldom to take registers from the loops between.
template <class Target, int rows, int columns>
class PromotedSums {
 public:
  // The sums begin again at 0.
  RAPT_DEVICE void promote(const float (&row_max)[rows], float (&sums)[rows][columns]) {
    const int first = Target::unknown(0);
    join(first, row_max, sums, [&](int at, int x, const CompensatedSum& all) {
      sums_[at].at[x] = all.sum;
      compensations_[at].at[x] = all.compensation;
      return 0.0f;
    });
    RAPT_UNROLL
    for (int i = 0; i < rows; ++i) row_max_[first + i] = row_max[i];
    any_ = true;
  }
  // What was promoted joins the sums again.
  RAPT_DEVICE void join(const float (&row_max)[rows], float (&sums)[rows][columns]) {
    if (!any_) return;
    join(Target::unknown(0), row_max, sums,
         [](int, int, const CompensatedSum& all) { return all.total(); });
  }
  // The same for sums of weighted values, which are many.
  RAPT_DEVICE void join_out(const float (&row_max)[rows], float (&sums)[rows][columns]) {
    if (!any_) return;
    join(Target::unknown(0), row_max, sums,
         [](int, int, const CompensatedSum& all) { return all.total_or_nan(); });
  }

 private:
  static constexpr int width = columns % 4 == 0 ? 4 : columns % 2 == 0 ? 2 : 1;
  using Some = Vector<float, width>;

  // Each sum becomes what `made` makes of it with all that was promoted.
  template <class Made>
  RAPT_DEVICE void join(int first, const float (&row_max)[rows], float (&sums)[rows][columns],
                        Made made) {
    RAPT_UNROLL
    for (int i = 0; i < rows; ++i) {
      first = Target::unknown(first);  // loads of a row do not wait in registers for another's
      const float factor = any_ ? rescale_factor<Target>(row_max_[first + i], row_max[i]) : 0.0f;
      RAPT_UNROLL
      for (int j = 0; j < columns; j += width) {
        const int at = first + (i * columns + j) / width;
        Some sum = {}, compensation = {};
        if (any_) {
          sum = sums_[at];
          compensation = compensations_[at];
        }
        RAPT_UNROLL
        for (int x = 0; x < width; ++x) {
          CompensatedSum all = {sum.at[x], compensation.at[x]};
          all.scale(factor);
          all.add(sums[i][j + x]);
          sums[i][j + x] = made(at, x, all);
        }
      }
    }
  }

  bool any_ = false;
  float row_max_[rows];
  Some sums_[rows * columns / width], compensations_[rows * columns / width];
};

}  // namespace rapt::gpu
