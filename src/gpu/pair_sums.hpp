// Dot products of `rows` queries with `steps` keys, of which each of `lanes` neighbouring lanes
// holds a part.
//
// Summing them one by one would leave every lane with every sum. Here each exchange halves what a
// lane goes on with, so that the sums end up spread over the lanes: fewer shuffles, and what
// follows (masks, scores, 2^x) is done once for each pair rather than by every lane.
#pragma once

#include "src/gpu/target.hpp"

namespace rapt::gpu {

template <class Target, int lanes, int rows, int steps>
struct PairSums {
  static_assert(rows <= lanes);
  static constexpr int spread = steps < lanes / rows ? steps : lanes / rows;
  static constexpr int kept = steps / spread;  // sums of a lane

  // Whose sums a lane ends up with: one row, and `kept` steps from this one on. Lanes from
  // rows · spread on repeat the others.
  RAPT_DEVICE static int row_of(int lane) { return lane % rows; }
  RAPT_DEVICE static int first_step_of(int lane) { return lane / rows % spread * kept; }
  // A lane that has the sum of a row and step, as its number step % kept.
  RAPT_DEVICE static int holder(int row, int step) { return step / kept * rows + row; }

  // parts: (row, step). All lanes take part.
  RAPT_DEVICE static void sum(int lane, float (&parts)[rows * steps], float (&sums)[kept]) {
    halve<rows * steps, steps, rows / 2>(lane, parts);
    halve<steps, kept, rows * spread / 2>(lane, parts);
    RAPT_UNROLL
    for (int i = 0; i < kept; ++i) {
      sums[i] = parts[i];
      RAPT_UNROLL
      for (int mask = rows * spread; mask < lanes; mask *= 2)
        sums[i] += Target::shuffle_xor(sums[i], mask);
    }
  }

  // Over all steps of the lane's row.
  RAPT_DEVICE static float largest_of_row(float value) {
    RAPT_UNROLL
    for (int mask = rows; mask < rows * spread; mask *= 2) {
      const float other = Target::shuffle_xor(value, mask);
      value = other > value ? other : value;
    }
    return value;
  }
  RAPT_DEVICE static float sum_of_row(float value) {
    RAPT_UNROLL
    for (int mask = rows; mask < rows * spread; mask *= 2)
      value += Target::shuffle_xor(value, mask);
    return value;
  }

 private:
  // Lanes with the bit of `mask` go on with the upper half of the first `count` parts, the others
  // with the lower half, until `least` are left.
  template <int count, int least, int mask>
  RAPT_DEVICE static void halve(int lane, float (&parts)[rows * steps]) {
    if constexpr (count > least) {
      const bool upper = (lane & mask) != 0;
      RAPT_UNROLL
      for (int i = 0; i < count / 2; ++i) {
        const float low = parts[i], high = parts[i + count / 2];
        parts[i] = (upper ? high : low) + Target::shuffle_xor(upper ? low : high, mask);
      }
      halve<count / 2, least, mask / 2>(lane, parts);
    }
  }
};

}  // namespace rapt::gpu
