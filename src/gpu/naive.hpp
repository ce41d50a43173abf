// naive: every score stored, three kernels, no shared memory. The baseline of every speedup: one
// thread a score, then one thread an element of out, each reading what it needs from global memory.
#pragma once

#include "src/gpu/key_rows.hpp"
#include "src/gpu/long_sums.hpp"
#include "src/gpu/rows.hpp"
#include "src/gpu/score_matrix.hpp"

namespace rapt::gpu {

// Threads stand side by side over 32 keys, so that they share the query, 8 queries a block.
template <class Target, class Element>
struct NaiveScores {
  using Parameters = ScoreMatrix;
  static constexpr int threads = 256, blocks = 4, shared_bytes = 0;
  static constexpr int keys = 32, queries = threads / keys;
  static constexpr int dims = 16;  // that are summed one after another

  RAPT_DEVICE static void run(const Parameters& m) {
    const semantics::Call& call = m.call;
    const Index key_tiles = semantics::divided_up(call.kv_len, keys);
    const Index query_tiles = semantics::divided_up(call.q_len, queries);
    Index block = Target::block_x();
    const Index key = block % key_tiles * keys + Target::thread() % keys;
    block /= key_tiles;
    const Index query = block % query_tiles * queries + Target::thread() / keys;
    block /= query_tiles;
    const Index head = block % call.heads;
    const semantics::Sequence sequence = semantics::sequence(call, block / call.heads);
    if (query >= sequence.q_len) return;
    if (!semantics::in_window(call.window, query + sequence.offset, key, sequence.kv_len)) return;

    const auto* q =
        static_cast<const Element*>(call.q) +
        semantics::row_offset(call.q_stride, semantics::query_place(call, sequence, query), head);
    const KeyRows<Element> keys_of_head(call, sequence, call.k, call.k_stride,
                                        semantics::kv_head_of(call, head));
    const Element* k = keys_of_head.at(key);
    const bool whole = whole_accesses<Element>(m.aligned, call.qk_dim);
    CompensatedSum dot = {0, 0};
    for (Index first = 0; first < call.qk_dim; first += dims) {
      const Index end = semantics::smaller(first + dims, call.qk_dim);
      float sum = 0;
      RAPT_UNROLL_BY_4
      for (Index dim = first; dim < end; dim += 8) {
        float left[8], right[8];
        load_row<Target>(q, dim, call.qk_dim, whole, left);
        load_row<Target>(k, dim, call.qk_dim, whole, right);
        RAPT_UNROLL
        for (int i = 0; i < 8; ++i) sum += left[i] * right[i];
      }
      dot.add(sum);
    }
    m.scores[matrix_row(call, sequence, query, head) * m.chunk + key] = dot.total();
  }
};

// Threads stand side by side over 32 dims, 4 queries a block.
template <class Target, class Element>
struct NaiveOut {
  using Parameters = ScoreMatrix;
  static constexpr bool follows = true;
  static constexpr int threads = 128, blocks = 8, shared_bytes = 0;
  static constexpr int dims = 32, queries = threads / dims;
  static constexpr int at_once = 4;  // keys whose loads are in flight together

  RAPT_DEVICE static void run(const Parameters& m) {
    Target::wait_for_previous();
    const semantics::Call& call = m.call;
    const Index dim_tiles = semantics::divided_up(call.v_dim, dims);
    const Index query_tiles = semantics::divided_up(call.q_len, queries);
    Index block = Target::block_x();
    const Index dim = block % dim_tiles * dims + Target::thread() % dims;
    block /= dim_tiles;
    const Index query = block % query_tiles * queries + Target::thread() / dims;
    block /= query_tiles;
    const Index head = block % call.heads;
    const semantics::Sequence sequence = semantics::sequence(call, block / call.heads);
    if (query >= sequence.q_len || dim >= call.v_dim) return;

    const Index row = matrix_row(call, sequence, query, head);
    const KeyRows<Element> values(call, sequence, call.v, call.v_stride,
                                  semantics::kv_head_of(call, head));
    const semantics::KeyRanges seen =
        semantics::visible_keys(call.window, query + sequence.offset, sequence.kv_len);
    const float* weights = m.scores + row * m.chunk;
    CompensatedSum all = {0, 0};
    const semantics::Range ranges[] = {seen.first, seen.window};
    for (const semantics::Range& range : ranges) {
      for (Index first = range.begin; first < range.end; first += span_of_sums<float>)
        all.add(weighted_sum(weights, values, dim, first,
                             semantics::smaller(first + span_of_sums<float>, range.end)));
    }
    const semantics::Place place = semantics::query_place(call, sequence, query);
    const float out[1] = {all.total() * reciprocal_or_zero(sum_of_weights(m, row))};
    OutRow<Element>(call, place, head, false).template store<Target>(dim, out);
  }

 private:
  // Over keys first … end − 1.
  RAPT_DEVICE static float weighted_sum(const float* weights, const KeyRows<Element>& values,
                                        Index dim, Index first, Index end) {
    float sum = 0;
    for (Index key = first; key < end; key += at_once) {
      float weight[at_once] = {};
      Element value[at_once] = {};
      RAPT_UNROLL
      for (int i = 0; i < at_once; ++i) {
        if (key + i >= end) continue;
        weight[i] = weights[key + i];
        value[i] = Target::load(values.at(key + i) + dim);
      }
      RAPT_UNROLL
      for (int i = 0; i < at_once; ++i) sum += weight[i] * Target::to_float(value[i]);
    }
    return sum;
  }
};

template <class Launcher>
void launch_naive(const ScoreMatrix& matrix, Where where) {
  using Target = typename Launcher::Target;
  const semantics::Call& call = matrix.call;
  with_element(matrix.dtype, [&]<class Element>() {
    using Scores = NaiveScores<Target, Element>;
    using Out = NaiveOut<Target, Element>;
    const Index heads = call.batch * call.heads;
    Launcher::template launch<Scores>({semantics::divided_up(call.kv_len, Scores::keys) *
                                       semantics::divided_up(call.q_len, Scores::queries) * heads},
                                      matrix, where);
    launch_matrix_softmax<Launcher, false, Element>(matrix, where);
    Launcher::template launch<Out>({semantics::divided_up(call.v_dim, Out::dims) *
                                    semantics::divided_up(call.q_len, Out::queries) * heads},
                                   matrix, where);
  });
}

}  // namespace rapt::gpu
