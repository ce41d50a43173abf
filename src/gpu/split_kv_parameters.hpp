// What kernels that split keys share, the two of split_kv and others that leave partial results for
// its second one: how rows and keys are cut, and where partial results lie.
#pragma once

#include "src/gpu/divisor.hpp"
#include "src/gpu/launch.hpp"
#include "src/gpu/rows.hpp"
#include "src/gpu/softmax.hpp"

namespace rapt::gpu {

inline constexpr int split_kv_most_keys = 1 << 30;   // of a sequence: keys are ints
inline constexpr int split_kv_least_keys = 64;       // of a chunk, unless it is the only one
inline constexpr int split_kv_elements = 8;          // of a lane
inline constexpr int split_kv_combined_at_once = 4;  // chunks of a row, by each lane group
inline constexpr int split_kv_general_rows = 4;      // of a tile, where it is not plain
inline constexpr int split_kv_threads = 128;         // of a block

struct SplitKvParameters {
  semantics::Call call;
  DType dtype;
  bool aligned;                    // rows of all tensors start at multiples of 16 bytes
  bool plain;                      // as in the config
  Divisor heads, kv_heads, q_len;  // of the call
  Divisor group;                   // query heads of a kv head
  Divisor page;                    // keys of a page
  Divisor rows;                    // of a tile
  Divisor tiles;                   // of a kv head and sequence, at most
  Divisor chunks;                  // of a tile, at most
  Divisor splits;                  // chunks of a tile's keys, unless those would get too short
  Divisor chunk_step;              // keys of a chunk are a multiple of it
  // Partial results, for more than one chunk: (query, head, chunk), queries as in `out`. A row has
  // out_stride floats, a multiple of 4; a state is (row max, sum).
  float* partial_out;
  Vector<float, 2>* partial_states;
  Index out_stride;
};

struct SplitKvConfig {
  int lanes;  // of a key: dims up to 8 · lanes
  int rows;   // of a tile
  // Plain: scores are scaled dot products, no pair is dropped, the keys of a tile one range, and
  // rows of all tensors aligned and of whole lanes.
  bool plain;
};

// The queries of a sequence and the heads of a group meet the group's kv head together: row
// query · group + head. A tile is some of these rows. The keys that at least one of them sees are
// cut into chunks; how depends on the sequence alone, not on what else is in the batch. Where they
// are two ranges, they are numbered as if there were no gap between.
struct KeyNumbers {
  int leading, gap;  // keys before the gap, and in it; 0 both: there is none

  RAPT_DEVICE int key_of(int number) const { return number < leading ? number : number + gap; }
  // Of a key behind the gap.
  RAPT_DEVICE int number_of(Index key) const { return static_cast<int>(key) - gap; }
  // Whether keys of numbers first … end − 1 lie side by side.
  RAPT_DEVICE bool adjacent(int first, int end) const {
    return gap == 0 || end <= leading || first >= leading;
  }
};

struct RowTile {
  semantics::Sequence sequence;
  int first_row, rows;  // rows: 0 or less beyond the last
  int first_key, keys;  // their numbers
  int chunk_keys;
  KeyNumbers numbers;

  RAPT_DEVICE bool has_chunk(int chunk) const {
    return chunk == 0 || Index{chunk} * chunk_keys < keys;
  }
  RAPT_DEVICE bool has_one_chunk() const { return keys <= chunk_keys; }
};

// `plain`: as in the config.
template <bool plain = false>
RAPT_DEVICE RowTile row_tile(const SplitKvParameters& p, int sequence, int tile) {
  RowTile t = {};
  t.sequence = semantics::sequence(p.call, sequence);
  t.first_row = tile * p.rows.value;
  const int rows_left = static_cast<int>(t.sequence.q_len) * p.group.value - t.first_row;
  t.rows = rows_left < p.rows.value ? rows_left : p.rows.value;
  if (t.rows <= 0) return t;
  const Index first_position = p.group.quotient(t.first_row) + t.sequence.offset;
  const Index last_position = p.group.quotient(t.first_row + t.rows - 1) + t.sequence.offset;
  if constexpr (plain) {
    const semantics::Range keys =
        semantics::keys_of_some(p.call.window, first_position, last_position, t.sequence.kv_len);
    t.first_key = static_cast<int>(keys.begin);
    t.keys = static_cast<int>(keys.end - keys.begin);
  } else {
    const semantics::KeyRanges keys =
        semantics::visible_to_some(p.call.window, first_position, last_position, t.sequence.kv_len);
    const int leading = static_cast<int>(keys.first.end);
    t.numbers = {leading, leading > 0 ? static_cast<int>(keys.window.begin) - leading : 0};
    t.first_key = leading > 0 ? 0 : static_cast<int>(keys.window.begin);
    t.keys = leading + static_cast<int>(keys.window.end - keys.window.begin);
  }
  const int even = p.splits.quotient(t.keys + p.splits.value - 1);
  const int least = even > split_kv_least_keys ? even : split_kv_least_keys;
  t.chunk_keys = p.chunk_step.quotient(least + p.chunk_step.value - 1) * p.chunk_step.value;
  return t;
}

// One query of one head.
struct SplitKvRow {
  int query, head;
};
RAPT_DEVICE SplitKvRow row_at(const SplitKvParameters& p, int kv_head, int row) {
  const int query = p.group.quotient(row);
  return {query, kv_head * p.group.value + row - query * p.group.value};
}

// Number of a row's first partial result; those of its other chunks follow.
RAPT_DEVICE Index first_partial(const SplitKvParameters& p, const semantics::Sequence& sequence,
                                SplitKvRow row) {
  const semantics::Place place = semantics::query_place(p.call, sequence, row.query);
  return ((place.outer * p.call.q_len + place.row) * p.call.heads + row.head) * p.chunks.value;
}

// A row over one of its chunks, elements at …
template <class Target>
RAPT_DEVICE void store_partial(const SplitKvParameters& p, Index number, int at, RowState state,
                               const float (&out)[split_kv_elements]) {
  float* to = p.partial_out + number * p.out_stride;
  RAPT_UNROLL
  for (int i = 0; i < split_kv_elements; i += 4) {
    if (at + i < p.out_stride)
      Target::store(reinterpret_cast<Vector<float, 4>*>(to + at + i),
                    Vector<float, 4>{{out[i], out[i + 1], out[i + 2], out[i + 3]}});
  }
  if (at == 0)
    Target::store(p.partial_states + number, Vector<float, 2>{{state.row_max, state.sum}});
}

// A row over all its keys: the sink joins, the sum divides, elements at … go out. With dropout,
// what was kept is scaled here.
template <class Target, class Element>
RAPT_DEVICE void finish_row(const SplitKvParameters& p, const semantics::Sequence& sequence,
                            SplitKvRow row, int at, RowState state,
                            float (&out)[split_kv_elements]) {
  const semantics::Call& call = p.call;
  const RowState sink = first_state(call, row.head);
  const float new_max = sink.row_max > state.row_max ? sink.row_max : state.row_max;
  const float factor = rescale_factor<Target>(state.row_max, new_max);
  const RowState whole = {
      new_max, state.sum * factor + sink.sum * rescale_factor<Target>(sink.row_max, new_max)};
  float scale = factor * reciprocal_or_zero(whole.sum);
  if (call.dropout.seed) scale *= semantics::kept_scale<float>(call.dropout);
  RAPT_UNROLL
  for (int i = 0; i < split_kv_elements; ++i) out[i] *= scale;
  const semantics::Place place = semantics::query_place(call, sequence, row.query);
  OutRow<Element>(call, place, row.head, p.aligned).template store<Target>(at, out);
  if (call.lse && at == 0)
    call.lse[semantics::lse_offset(call, place, row.head)] = natural_log_sum<Target>(whole);
}

}  // namespace rapt::gpu
