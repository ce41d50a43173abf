// split_kv: few queries, many keys. The keys are cut into chunks, so that there are blocks enough
// to fill the chip: one kernel gives (row max, sum, out) of every row and chunk, a second one
// merges the chunks of each row. Rows with one chunk are done after the first.
#pragma once

#include "src/gpu/split_kv_partial.hpp"

namespace rapt::gpu {

// The second kernel: a block for each row, its lane groups taking chunks in turn.
template <class Target, SplitKvConfig config, class Element>
struct SplitKvCombine {
  using Parameters = SplitKvParameters;
  static constexpr bool follows = true;
  static constexpr int threads = split_kv_threads, blocks = 8;
  static constexpr int lanes = config.lanes, each = split_kv_elements;
  static constexpr int lane_groups = threads / lanes;
  static constexpr int at_once = split_kv_combined_at_once;
  using Merge = LaneGroups<Target, lanes, lane_groups, 1>;
  static constexpr int shared_bytes = Merge::bytes;

  RAPT_DEVICE static void run(const Parameters& p) {
    const int queries = p.heads.quotient(Target::block_x());
    const SplitKvRow row = {p.q_len.remainder(queries), p.heads.remainder(Target::block_x())};
    const int row_of_kv_head = row.query * p.group.value + p.group.remainder(row.head);
    const RowTile tile = row_tile(p, p.q_len.quotient(queries), p.rows.quotient(row_of_kv_head));
    Target::wait_for_previous();  // for partial results; lengths were there before
    if (row.query >= tile.sequence.q_len || tile.has_one_chunk()) return;

    const int lane_group = Target::thread() / lanes, lane = Target::thread() % lanes,
              at = lane * each;
    const Index first = first_partial(p, tile.sequence, row);
    RowState state = {minus_infinity, 0};
    float out[each] = {};
    for (int chunk = lane_group; tile.has_chunk(chunk); chunk += lane_groups * at_once)
      add(p, tile, first, chunk, at, state, out);
    if (lane == 0) Merge::store_state(lane_group, 0, state);
    Merge::store_out(lane_group, 0, lane, out);
    Target::block_barrier();
    if (lane_group > 0) return;
    state = Merge::merged(0, lane, out);
    finish_row<Target, Element>(p, tile.sequence, row, at, state, out);
  }

 private:
  // Chunks `chunk`, chunk + lane groups, …, at_once of them.
  RAPT_DEVICE static void add(const Parameters& p, const RowTile& tile, Index first, int chunk,
                              int at, RowState& state, float (&out)[each]) {
    Vector<float, 2> others[at_once];
    RawRow<float, each> values[at_once];
    float new_max = state.row_max;
    RAPT_UNROLL
    for (int i = 0; i < at_once; ++i) {
      const Index number = first + chunk + i * lane_groups;
      const bool exists = tile.has_chunk(chunk + i * lane_groups);
      others[i] = {{minus_infinity, 0}};
      if (exists) others[i] = Target::load_fresh(p.partial_states + number);
      values[i] = load_raw_row<Fresh<Target>, each>(p.partial_out + number * p.out_stride, at,
                                                    exists ? p.out_stride : 0, true);
    }
    RAPT_UNROLL
    for (int i = 0; i < at_once; ++i)
      new_max = others[i].at[0] > new_max ? others[i].at[0] : new_max;
    const float rescale = rescale_factor<Target>(state.row_max, new_max);
    state = {new_max, state.sum * rescale};
    RAPT_UNROLL
    for (int j = 0; j < each; ++j) out[j] *= rescale;
    RAPT_UNROLL
    for (int i = 0; i < at_once; ++i) {
      const float factor = rescale_factor<Target>(others[i].at[0], new_max);
      state.sum += factor * others[i].at[1];
      RAPT_UNROLL
      for (int j = 0; j < each; ++j) out[j] += factor * values[i].at(j);
    }
  }
};

// After a kernel that left partial results.
template <class Launcher>
void launch_split_kv_combine(const SplitKvParameters& p, Where where) {
  const Index rows = p.call.batch * p.call.q_len * p.call.heads;
  const Index least_lanes = semantics::divided_up(p.call.v_dim, split_kv_elements);
  with_element(p.dtype, [&]<class Element>() {
    with_one_of<8, 16, 32>(least_lanes, [&]<int lanes>() {
      using Combine =
          SplitKvCombine<typename Launcher::Target, SplitKvConfig{lanes, 1, false}, Element>;
      Launcher::template launch<Combine>({rows}, p, where);
    });
  });
}

template <class Launcher>
void launch_split_kv(const SplitKvParameters& p, Where where) {
  const typename Launcher::Scope scope(where.device);
  const Index blocks = p.call.batch * p.chunks.value * p.tiles.value * p.call.kv_heads;
  const Index least_lanes =
      semantics::divided_up(semantics::larger(p.call.qk_dim, p.call.v_dim), split_kv_elements);
  with_element(p.dtype, [&]<class Element>() {
    with_one_of<8, 16, 32>(least_lanes, [&]<int lanes>() {
      if (p.plain) {
        with_one_of<1, 4, 8>(p.rows.value, [&]<int rows>() {
          using Partial =
              SplitKvPartial<typename Launcher::Target, SplitKvConfig{lanes, rows, true}, Element>;
          Launcher::template launch<Partial>({blocks}, p, where);
        });
      } else {
        using Partial = SplitKvPartial<typename Launcher::Target,
                                       SplitKvConfig{lanes, split_kv_general_rows, false}, Element>;
        Launcher::template launch<Partial>({blocks}, p, where);
      }
    });
  });
  if (p.chunks.value > 1) launch_split_kv_combine<Launcher>(p, where);
}

}  // namespace rapt::gpu
