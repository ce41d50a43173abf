// The last two kernels of flash_wide in one, for up to 64 keys.
//
// A block needs all weights of its 16 queries, and these are few: it sums the slices of their
// scores and takes the softmax itself, as every other block of the same queries does, rather than
// wait for a kernel that would do so once. Eight lanes share a query, each with eight keys side by
// side.
#pragma once

#include "src/gpu/tiled.hpp"

namespace rapt::gpu {

inline constexpr int few_keys = 64;
inline constexpr Index few_slices = 8;  // more of them take longer to sum than a launch

template <class Target, bool plain, class Element>
struct FewKeysOut {
  using Parameters = TiledParameters;
  static constexpr bool follows = true;
  static constexpr int threads = tiled_threads, blocks = 4;
  static constexpr int rows = small_tiles.rows, keys_each = few_keys / thread_columns;
  static constexpr int dims = out_tile_dims, dims_each = dims / thread_columns;
  static constexpr int access = static_cast<int>(matrix_access);
  static constexpr int half = few_keys / 2;  // of the values: what a thread loads at a time
  static constexpr int weights_stride = tile_stride<few_keys>, values_stride = tile_stride<dims>;
  static constexpr int values_at = tile_bytes<rows, few_keys>;
  static constexpr int shared_bytes = values_at + tile_bytes<few_keys, dims>;
  static constexpr bool most_shared_memory = true;
  using Place = ThreadPlace<Target, rows>;
  using ValuePieces = TilePieces<Target, Element, half, dims, threads>;
  static_assert(ValuePieces::each == ValuePieces::at_once);

  RAPT_DEVICE static void run(const Parameters& p) {
    const ScoreMatrix m = known<plain>(p.matrix);
    const semantics::Call& call = m.call;
    const Index first_dim = Index{p.tiles.remainder(Target::block_x())} * dims;
    const QueryTile t = query_tile(m, p.query_tiles, p.tiles.quotient(Target::block_x()), rows);
    const bool whole = plain || whole_accesses<Element>(m.aligned, call.v_dim);
    const KeyRows<Element> value_rows(call, t.sequence, call.v, call.v_stride,
                                      m.group.quotient(t.head));
    ValuePieces halves[2];
    RAPT_UNROLL
    for (int h = 0; h < 2; ++h) {
      halves[h].aim(0, [&](int row) -> const Element* {
        const int key = h * half + row;
        return semantics::holds(t.keys, key) ? value_rows.at(key) : nullptr;
      });
      halves[h].fetch(0, first_dim, call.v_dim, whole);
    }
    Target::wait_for_previous();  // for scores; values were there before
    if (t.first > t.last) return;

    const auto weights = Target::template shared<float>(0, rows * weights_stride);
    const auto values = Target::template shared<float>(values_at, few_keys * values_stride);
    RAPT_UNROLL
    for (int h = 0; h < 2; ++h) {
      halves[h].store_tile(0, Target::template shared<float>(values_at + tile_bytes<half, dims> * h,
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
    const OutRow<Element> out(call, place, t.head, m.aligned, plain);
    const float factor = reciprocal_or_zero(state.sum);
    RAPT_UNROLL
    for (int g = 0; g < dims_each / 4; ++g) {
      float four[4];
      RAPT_UNROLL
      for (int y = 0; y < 4; ++y) four[y] = sums[0][g * 4 + y] * factor;
      out.template store<Target>(first_dim + (g * thread_columns + Place::column()) * 4, four);
    }
    if (call.lse && first_dim == 0 && Place::column() == 0)
      call.lse[semantics::lse_offset(call, place, t.head)] = natural_log_sum<Target>(state);
  }

 private:
  // The weights of a thread's query and of keys column · 8 …, and the state of the whole row.
  RAPT_DEVICE static RowState weigh(const ScoreMatrix& m, const QueryTile& t,
                                    float (&of_keys)[keys_each]) {
    const semantics::Call& call = m.call;
    const Index query = semantics::smaller(t.first + Place::row(0), t.last);
    const Index position = query + t.sequence.offset;
    const semantics::KeyRanges seen =
        semantics::visible_keys(call.window, position, t.sequence.kv_len);
    const Index end = semantics::span_of(seen).end;
    const int first_key = Place::column() * keys_each;
    const float* scores =
        m.scores + matrix_row(call, t.sequence, query, t.head) * m.chunk + first_key;
    RAPT_UNROLL
    for (int j = 0; j < keys_each; ++j) of_keys[j] = 0;
    for (Index slice = 0; slice < m.slices; ++slice, scores += m.rows * m.chunk) {
      RAPT_UNROLL
      for (int j = 0; j < keys_each; j += access) {
        if (first_key + j >= end) continue;
        const auto some =
            Target::load_fresh(reinterpret_cast<const Vector<float, access>*>(scores + j));
        RAPT_UNROLL
        for (int i = 0; i < access; ++i) of_keys[j + i] += some.at[i];
      }
    }
    RowState state = first_state(call, t.head);
    const float sink = state.row_max;
    RAPT_UNROLL
    for (int j = 0; j < keys_each; ++j) {
      const int key = first_key + j;
      const bool sees = semantics::holds(seen, key);
      of_keys[j] = !sees ? minus_infinity
                   : has_score_mod(call)
                       ? scored_exponent<Target, Element>(call, t.sequence.index, t.head, query,
                                                          position, key, of_keys[j])
                       : Target::product(of_keys[j], call.scale * log2_e);
      state.row_max = of_keys[j] > state.row_max ? of_keys[j] : state.row_max;
    }
    state.row_max = largest_over<Target, thread_columns>(state.row_max);
    const float base = finite_max(state.row_max);
    float sum = 0;
    RAPT_UNROLL
    for (int j = 0; j < keys_each; ++j) {
      of_keys[j] = Target::exp2(of_keys[j] - base);
      sum += of_keys[j];
    }
    state.sum = sum_over<Target, thread_columns>(sum) + state.sum * Target::exp2(sink - base);
    if (call.dropout.seed) {
      const semantics::DropoutStream dropout =
          semantics::dropout_stream(call.dropout, t.sequence.index, t.head);
      const float kept_scale = semantics::kept_scale<float>(call.dropout);
      RAPT_UNROLL
      for (int j = 0; j < keys_each; ++j)
        of_keys[j] =
            semantics::keeps(dropout, query, first_key + j) ? of_keys[j] * kept_scale : 0.0f;
    }
    return state;
  }
};

}  // namespace rapt::gpu
