// Results of the same rows over different keys, merged through shared memory.
//
// A lane group is `lanes` neighbouring threads that hold (row max, sum, out) of some rows, eight
// elements of out a lane. After store_out() and a barrier, merged() gives any thread a lane's share
// of a row over all lane groups. `padding` floats, a multiple of 4, follow each row.
#pragma once

#include "src/gpu/rows.hpp"
#include "src/gpu/softmax.hpp"

namespace rapt::gpu {

template <class Target, int lanes, int lane_groups, int rows, int padding = 0>
struct LaneGroups {
  static constexpr int each = 8;
  static constexpr int row_floats = lanes * each + padding;
  static constexpr int out_floats =
      lane_groups * rows * row_floats;  // (lane group, row, half, lane, four)
  static constexpr int state_floats = lane_groups * rows * 2;  // (lane group, row)
  static constexpr int bytes = (out_floats + state_floats) * 4;

  RAPT_DEVICE static void store_out(int lane_group, int row, int lane, const float (&out)[each]) {
    RAPT_UNROLL
    for (int half = 0; half < 2; ++half) {
      Vector<float, 4> four;
      RAPT_UNROLL
      for (int i = 0; i < 4; ++i) four.at[i] = out[half * 4 + i];
      out_memory().store_vector(out_at(lane_group, row, lane, half), four);
    }
  }
  // Elements `column` and column + 1 alone; `column` is even.
  RAPT_DEVICE static void store_two(int lane_group, int row, int column, float first,
                                    float second) {
    out_memory().store_vector(
        out_at(lane_group, row, column / each, column % each / 4) + column % 4,
        Vector<float, 2>{{first, second}});
  }
  RAPT_DEVICE static void store_state(int lane_group, int row, RowState state) {
    state_memory().store_vector(state_at(lane_group, row),
                                Vector<float, 2>{{state.row_max, state.sum}});
  }

  RAPT_DEVICE static RowState merged(int row, int lane, float (&out)[each]) {
    float new_max = minus_infinity;
    for (int lane_group = 0; lane_group < lane_groups; ++lane_group) {
      const float other = state_memory().load(state_at(lane_group, row));
      new_max = other > new_max ? other : new_max;
    }
    RowState result = {new_max, 0};
    RAPT_UNROLL
    for (int i = 0; i < each; ++i) out[i] = 0;
    for (int lane_group = 0; lane_group < lane_groups; ++lane_group) {
      const Vector<float, 2> state =
          state_memory().template load_vector<2>(state_at(lane_group, row));
      const float factor = rescale_factor<Target>(state.at[0], new_max);
      result.sum += factor * state.at[1];
      RAPT_UNROLL
      for (int half = 0; half < 2; ++half) {
        const Vector<float, 4> four =
            out_memory().template load_vector<4>(out_at(lane_group, row, lane, half));
        RAPT_UNROLL
        for (int i = 0; i < 4; ++i) out[half * 4 + i] += factor * four.at[i];
      }
    }
    return result;
  }

 private:
  RAPT_DEVICE static auto out_memory() { return Target::template shared<float>(0, out_floats); }
  RAPT_DEVICE static auto state_memory() {
    return Target::template shared<float>(out_floats * 4, state_floats);
  }
  // Neighbouring lanes store neighbouring fours: no two of them in one bank.
  RAPT_DEVICE static int out_at(int lane_group, int row, int lane, int half) {
    return (lane_group * rows + row) * row_floats + (half * lanes + lane) * 4;
  }
  RAPT_DEVICE static int state_at(int lane_group, int row) { return (lane_group * rows + row) * 2; }
};

}  // namespace rapt::gpu
