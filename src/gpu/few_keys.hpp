// The last two kernels of flash_wide in one, for up to 64 keys.
//
// A block needs all weights of its 16 queries, and these are few: it sums the slices of their
// scores and takes the softmax itself, as every other block of the same queries does, rather than
// wait for a kernel that would do so once. Eight lanes share a query. Each has eight keys side by
// side and, where there are lanes enough, only some of the slices.
#pragma once

#include "src/gpu/tiled.hpp"

namespace rapt::gpu {

inline constexpr int few_keys = 64;
inline constexpr int keys_of_lane = 8;
inline constexpr Index few_slices = 8;  // of a lane: more of them take longer to sum than a launch

// Of the eight lanes of a query, those that have different keys. Others share the slices.
RAPT_HOST_DEVICE int lanes_of_keys(Index keys) {
  int lanes = 1;
  while (lanes < thread_columns && lanes * keys_of_lane < keys) lanes *= 2;
  return lanes;
}

template <class Target, class Element>
struct FewKeysOut {
  using Parameters = ScoreMatrix;
  static constexpr bool follows = true;
  static constexpr int threads = tiled_threads, blocks = 4;
  static constexpr int rows = small_tiles.rows, keys_each = keys_of_lane;
  static constexpr int dims = out_tile_dims, dims_each = dims / thread_columns;
  static constexpr int access = static_cast<int>(matrix_access);
  static constexpr int half = few_keys / 2;  // of the values: what a thread loads at a time
  static constexpr int weights_stride = tile_stride<few_keys>, values_stride = tile_stride<dims>;
  static constexpr int values_at = tile_bytes<rows, few_keys>;
  static constexpr int shared_bytes = values_at + tile_bytes<few_keys, dims>;
  using Place = ThreadPlace<Target, rows>;
  using ValuePieces = TilePieces<Target, Element, half, dims, threads>;
  static_assert(ValuePieces::each == ValuePieces::at_once);

  RAPT_DEVICE static void run(const Parameters& m) {
    const semantics::Call& call = m.call;
    const Index dim_tiles = semantics::divided_up(call.v_dim, dims);
    const Index first_dim = Target::block_x() % dim_tiles * dims;
    const QueryTile t = query_tile(m, Target::block_x() / dim_tiles, rows);
    const bool whole = whole_accesses<Element>(m.aligned, call.v_dim);
    const KeyRows<Element> value_rows(call, t.sequence, call.v, call.v_stride,
                                      semantics::kv_head_of(call, t.head));
    ValuePieces halves[2];
    RAPT_UNROLL
    for (int h = 0; h < 2; ++h) {
      halves[h].aim(0, [&](int row) -> const Element* {
        const int key = h * half + row;
        return key < t.keys.begin || key >= t.keys.end ? nullptr : value_rows.at(key);
      });
      halves[h].fetch(0, first_dim, call.v_dim, whole);
    }
    Target::wait_for_previous();  // for scores; values were there before
    if (t.first > t.last) return;

    const auto weights = Target::template shared<float>(0, rows * weights_stride);
    const auto values = Target::template shared<float>(values_at, few_keys * values_stride);
    RAPT_UNROLL
    for (int h = 0; h < 2; ++h) {
      halves[h].put(0, Target::template shared<float>(values_at + tile_bytes<half, dims> * h,
                                                      half * values_stride));
    }
    float of_keys[keys_each];
    const RowState state = weigh(m, t, of_keys);
    RAPT_UNROLL
    for (int j = 0; j < keys_each; j += 4) {
      weights.store_vector(
          Place::row(0) * weights_stride + Place::column() * keys_each + j,
          Vector<float, 4>{{of_keys[j], of_keys[j + 1], of_keys[j + 2], of_keys[j + 3]}});
    }
    Target::block_barrier();
    float sums[1][dims_each] = {};
    multiply_by_columns<Place, 1, dims_each, few_keys>(weights, weights_stride, values,
                                                       values_stride, sums);

    const Index query = t.first + Place::row(0);
    if (query > t.last) return;
    const semantics::Place place = semantics::query_place(call, t.sequence, query);
    auto* out =
        static_cast<Element*>(call.out) + semantics::row_offset(call.out_stride, place, t.head);
    const float factor = reciprocal_or_zero(state.sum);
    RAPT_UNROLL
    for (int g = 0; g < dims_each / 4; ++g) {
      float four[4];
      RAPT_UNROLL
      for (int y = 0; y < 4; ++y) four[y] = sums[0][g * 4 + y] * factor;
      store_row<Target>(out, first_dim + (g * thread_columns + Place::column()) * 4, call.v_dim,
                        whole, four);
    }
    if (call.lse && first_dim == 0 && Place::column() == 0)
      call.lse[semantics::lse_offset(call, place, t.head)] = natural_log_sum<Target>(state);
  }

 private:
  // The weights of a thread's query and of keys column · 8 …, and the state of the whole row.
  RAPT_DEVICE static RowState weigh(const Parameters& m, const QueryTile& t,
                                    float (&of_keys)[keys_each]) {
    const semantics::Call& call = m.call;
    const Index query = semantics::smaller(t.first + Place::row(0), t.last);
    const Index position = query + t.sequence.offset;
    const semantics::Range seen = semantics::key_range(call.window, position, t.sequence.kv_len);
    const int key_lanes = lanes_of_keys(m.chunk), slice_lanes = thread_columns / key_lanes;
    const int first_slice = Place::column() / key_lanes;
    const int first_key = Place::column() % key_lanes * keys_each;
    const Index slice_size = m.rows * m.chunk;
    const float* scores = m.scores + matrix_row(call, t.sequence, query, t.head) * m.chunk +
                          first_slice * slice_size + first_key;
    RAPT_UNROLL
    for (int j = 0; j < keys_each; ++j) of_keys[j] = 0;
    RAPT_UNROLL_BY_4
    for (Index slice = first_slice; slice < m.slices;
         slice += slice_lanes, scores += slice_lanes * slice_size) {
      RAPT_UNROLL
      for (int j = 0; j < keys_each; j += access) {
        if (first_key + j >= seen.end) continue;
        const auto some = Target::load(reinterpret_cast<const Vector<float, access>*>(scores + j));
        RAPT_UNROLL
        for (int x = 0; x < access; ++x) of_keys[j + x] += some.at[x];
      }
    }
    RAPT_UNROLL
    for (int j = 0; j < keys_each; ++j) {
      for (int mask = key_lanes; mask < thread_columns; mask *= 2)
        of_keys[j] += Target::shuffle_xor(of_keys[j], mask);
    }
    RowState state = first_state(call, t.head);
    const float sink = state.reference;
    RAPT_UNROLL
    for (int j = 0; j < keys_each; ++j) {
      const int key = first_key + j;
      const bool sees = first_slice == 0 && key >= seen.begin && key < seen.end;
      of_keys[j] = !sees ? minus_infinity
                   : has_scoring(call)
                       ? scored_exponent<Target, Element>(call, t.sequence.index, t.head, query,
                                                          position, key, of_keys[j])
                       : of_keys[j] * (call.scale * log2_e);
      state.reference = of_keys[j] > state.reference ? of_keys[j] : state.reference;
    }
    state.reference = largest_over<Target, thread_columns>(state.reference);
    const float base = finite_reference(state.reference);
    float sum = 0;
    RAPT_UNROLL
    for (int j = 0; j < keys_each; ++j) {
      of_keys[j] = Target::exp2(of_keys[j] - base);
      sum += of_keys[j];
    }
    state.sum = sum_over<Target, thread_columns>(sum) + state.sum * Target::exp2(sink - base);
    return state;
  }
};

}  // namespace rapt::gpu
