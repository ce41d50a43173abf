// naive_backward: every weight and every score's gradient stored, then sums of rows for dq, dk
// and dv. The baseline of backward, for heads of any width, and what suits few pairs of wide
// heads and huge batches of a few.
//
//   pairs    Z P and dX, and dS where a cap sets it apart from dX, (rows, keys) in global memory
//   dq       scale · Σ dX k over the keys that the row sees
//   dk, dv   scale · Σ dX q and Σ Z P dout over the queries of all heads of the group
//   dbias    Σ dS over all that share an element
//
// Z is 1 without dropout.
#pragma once

#include "src/gpu/backward.hpp"
#include "src/gpu/key_rows.hpp"

namespace rapt::gpu {

struct NaiveBackwardParameters {
  BackwardParameters common;
  Index keys;                          // of a matrix's row
  float *weights, *products, *scores;  // Z P, dX, dS; of pairs inside the window
};

// `lanes` neighbouring lanes share a pair.
template <class Target, int lanes, class Element>
struct NaivePairs {
  using Parameters = NaiveBackwardParameters;
  static constexpr int threads = 128, blocks = 8, shared_bytes = 0;
  static constexpr int pairs = threads / lanes;

  RAPT_DEVICE static void run(const Parameters& m) {
    const BackwardParameters& p = m.common;
    const semantics::Call& call = p.call;
    const Index number = Index{Target::block_x()} * pairs + Target::thread() / lanes;
    const Index key = number % call.kv_len;
    const BackwardRow row(call, number / call.kv_len);
    const bool sees =
        row.exists && semantics::in_window(call.window, row.position(), key, row.sequence.kv_len);
    // Lanes without a pair still take part in the sums, over no elements.
    const semantics::Place place = row.place(call);
    const semantics::Place key_place = semantics::unpaged_key_place(call, row.sequence, key);
    const Index kv_head = semantics::kv_head_of(call, row.head);
    const float dot = dot_over_lanes<Target, lanes>(
        static_cast<const Element*>(call.q) + semantics::row_offset(call.q_stride, place, row.head),
        static_cast<const Element*>(call.k) +
            semantics::row_offset(call.k_stride, key_place, kv_head),
        sees ? call.qk_dim : 0, p.aligned);
    const Element* v = static_cast<const Element*>(call.v) +
                       semantics::row_offset(call.v_stride, key_place, kv_head);
    const float dout_v = with_out_row<Element>(
        call, p.gradients.dout, semantics::row_offset(p.gradients.dout_stride, place, row.head),
        [&](const auto* dout) {
          return dot_over_lanes<Target, lanes>(dout, v, sees ? call.v_dim : 0, p.aligned);
        });
    if (!sees || Target::thread() % lanes > 0) return;
    const Index at = row.matrix_row(call);
    const float score = hidden_by_mask(call, row.sequence.index, row.head, row.query, key)
                            ? minus_infinity
                            : score_of_pair<Target, Element>(call, row.sequence.index, row.head,
                                                             row.query, row.position(), key, dot);
    const semantics::DropoutStream dropout =
        semantics::dropout_stream(call.dropout, row.sequence.index, row.head);
    const float kept = semantics::keeps(dropout, row.query, key)
                           ? semantics::kept_scale<float>(call.dropout)
                           : 0.0f;
    const PairGradients pair = gradients_of_score<Target>(
        call, score, dot, kept * dout_v, call.lse[semantics::lse_offset(call, place, row.head)],
        p.deltas[at]);
    m.weights[at * m.keys + key] = kept * pair.weight;
    m.products[at * m.keys + key] = pair.of_dot;
    if (m.scores != m.products) m.scores[at * m.keys + key] = pair.of_score;
  }
};

// A row of a gradient in 8 neighbouring lanes, 8 dims each; 16 rows a block, and a block for every
// 64 dims.
struct NaiveRows {
  static constexpr int threads = 128, each = 8, lanes = 8, dims = each * lanes;
  static constexpr int rows = threads / lanes;

  Index dim, number;  // the thread's first dim, and its row's number

  template <class Target>
  RAPT_DEVICE static NaiveRows here(Index all_dims) {
    const Index tiles = semantics::divided_up(all_dims, dims), block = Target::block_x();
    return {block % tiles * dims + Target::thread() % lanes * each,
            block / tiles * rows + Target::thread() / lanes};
  }
  static Grid grid(Index count, Index all_dims) {
    return {semantics::divided_up(count, rows) * semantics::divided_up(all_dims, dims)};
  }
};

// Sums of rows times factors: of spans of them one after another, and of these with compensation.
template <class Target>
class NaiveSums {
 public:
  // For every i of a range, factor(i) · row(i) from `dim` on.
  template <class Factor, class Row>
  RAPT_DEVICE void add(semantics::Range range, Index dim, Index dims, bool whole, Factor factor,
                       Row row) {
    for (Index first = range.begin; first < range.end; first += span) {
      const Index end = semantics::smaller(first + span, range.end);
      float sums[NaiveRows::each] = {};
      RAPT_UNROLL_BY_4
      for (Index i = first; i < end; ++i) {
        float values[NaiveRows::each];
        const float by = factor(i);
        load_row<Target>(row(i), dim, dims, whole, values);
        RAPT_UNROLL
        for (int x = 0; x < NaiveRows::each; ++x) sums[x] += by * values[x];
      }
      RAPT_UNROLL
      for (int x = 0; x < NaiveRows::each; ++x) all_[x].add(sums[x]);
    }
  }
  RAPT_DEVICE void finish(float factor, float (&totals)[NaiveRows::each]) const {
    RAPT_UNROLL
    for (int x = 0; x < NaiveRows::each; ++x) totals[x] = all_[x].total() * factor;
  }

 private:
  static constexpr Index span = 32;
  CompensatedSum all_[NaiveRows::each] = {};
};

template <class Target, class Element>
struct NaiveQueryGradients {
  using Parameters = NaiveBackwardParameters;
  static constexpr int threads = NaiveRows::threads, blocks = 4, shared_bytes = 0;

  RAPT_DEVICE static void run(const Parameters& m) {
    const BackwardParameters& p = m.common;
    const semantics::Call& call = p.call;
    const NaiveRows here = NaiveRows::here<Target>(call.qk_dim);
    const BackwardRow row(call, here.number);
    if (!row.exists || here.dim >= call.qk_dim) return;
    const KeyRows<Element> keys(call, row.sequence, call.k, call.k_stride,
                                semantics::kv_head_of(call, row.head));
    const bool whole = whole_accesses<Element>(p.aligned, call.qk_dim);
    const semantics::KeyRanges seen =
        semantics::visible_keys(call.window, row.position(), row.sequence.kv_len);
    const float* products = m.products + row.matrix_row(call) * m.keys;
    NaiveSums<Target> sums;
    const semantics::Range ranges[] = {seen.first, seen.window};
    for (const semantics::Range& range : ranges) {
      sums.add(
          range, here.dim, call.qk_dim, whole, [&](Index key) { return products[key]; },
          [&](Index key) { return keys.at(key); });
    }
    float dq[NaiveRows::each];
    sums.finish(call.scale, dq);
    store_gradient<Target, Element>(
        p.gradients.dq, p.gradients.dq_is_f32,
        semantics::row_offset(p.gradients.dq_stride, row.place(call), row.head), here.dim,
        call.qk_dim, p.aligned, dq);
  }
};

// dk, or dv.
template <class Target, bool values, class Element>
struct NaiveKeyGradients {
  using Parameters = NaiveBackwardParameters;
  static constexpr int threads = NaiveRows::threads, blocks = 4, shared_bytes = 0;

  RAPT_DEVICE static void run(const Parameters& m) {
    const semantics::Call& call = m.common.call;
    const semantics::Gradients& g = m.common.gradients;
    const Index dims = values ? call.v_dim : call.qk_dim;
    const NaiveRows here = NaiveRows::here<Target>(dims);
    const Index kv_head = here.number % call.kv_heads;
    const Index key = here.number / call.kv_heads % call.kv_len;
    const Index batch = here.number / call.kv_heads / call.kv_len;
    if (batch >= call.batch || here.dim >= dims) return;
    const semantics::Sequence sequence = semantics::sequence(call, batch);
    if (key >= semantics::stored_keys(call, sequence)) return;
    NaiveSums<Target> sums;
    const auto add = [&](const auto* vectors, const Index(&stride)[3]) {
      add_queries(m, sequence, kv_head, key, vectors, stride, here.dim, dims, sums);
    };
    if constexpr (!values)
      add(static_cast<const Element*>(call.q), call.q_stride);
    else if (out_has_f32<Element>(call))
      add(static_cast<const float*>(g.dout), g.dout_stride);
    else
      add(static_cast<const Element*>(g.dout), g.dout_stride);
    float totals[NaiveRows::each];
    sums.finish(values ? 1.0f : call.scale, totals);
    const semantics::Place place = semantics::unpaged_key_place(call, sequence, key);
    store_gradient<Target, Element>(
        values ? g.dv : g.dk, values ? g.dv_is_f32 : g.dk_is_f32,
        semantics::row_offset(values ? g.dv_stride : g.dk_stride, place, kv_head), here.dim, dims,
        m.common.aligned, totals);
  }

 private:
  template <class Vector>
  RAPT_DEVICE static void add_queries(const Parameters& m, const semantics::Sequence& sequence,
                                      Index kv_head, Index key, const Vector* vectors,
                                      const Index (&stride)[3], Index dim, Index dims,
                                      NaiveSums<Target>& sums) {
    const semantics::Call& call = m.common.call;
    if (key >= sequence.kv_len) return;
    const float* matrix = values ? m.weights : m.products;
    const bool whole = whole_accesses<Vector>(m.common.aligned, dims);
    const semantics::Range queries =
        semantics::queries_of_keys(call.window, key, key, sequence.q_len, sequence.offset);
    const Index group = call.heads / call.kv_heads;
    for (Index head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      sums.add(
          queries, dim, dims, whole,
          [&](Index query) {
            return matrix[matrix_row(call, sequence, query, head) * m.keys + key];
          },
          [&](Index query) {
            const semantics::Place place = semantics::query_place(call, sequence, query);
            return vectors + semantics::row_offset(stride, place, head);
          });
    }
  }
};

// 32 lanes a row: −Σ dS |p − j|.
template <class Target>
struct NaiveSlopeParts {
  using Parameters = NaiveBackwardParameters;
  static constexpr int threads = 128, blocks = 8, shared_bytes = 0;
  static constexpr int lanes = 32, rows = threads / lanes;

  RAPT_DEVICE static void run(const Parameters& m) {
    const semantics::Call& call = m.common.call;
    const BackwardRow row(call, Index{Target::block_x()} * rows + Target::thread() / lanes);
    semantics::KeyRanges seen = {};
    if (row.exists)
      seen = semantics::visible_keys(call.window, row.position(), row.sequence.kv_len);
    const float* scores = m.scores + row.matrix_row(call) * m.keys;
    CompensatedSum sum = {0, 0};
    const semantics::Range ranges[] = {seen.first, seen.window};
    for (const semantics::Range& range : ranges) {
      for (Index key = range.begin + Target::thread() % lanes; key < range.end; key += lanes)
        sum.add(-scores[key] * distance_of(row.position(), key));
    }
    const float total = sum_over<Target, lanes>(sum.total());
    if (row.exists && Target::thread() % lanes == 0)
      m.common.slope_parts[row.matrix_row(call)] = total;
  }
};

// One thread an element of dbias, or one block where many pairs share it.
template <class Target, bool shared, class Element>
struct NaiveBiasGradients {
  using Parameters = NaiveBackwardParameters;
  static constexpr int threads = 256, blocks = 4, shared_bytes = threads * 4;

  RAPT_DEVICE static void run(const Parameters& m) {
    const semantics::Call& call = m.common.call;
    const semantics::Gradients& g = m.common.gradients;
    const Index element =
        shared ? Index{Target::block_x()} : Index{Target::block_x()} * threads + Target::thread();
    const Index(&size)[4] = g.dbias_size;
    if (element >= size[0] * size[1] * size[2] * size[3]) return;
    const Index at[4] = {element / size[3] / size[2] / size[1],
                         element / size[3] / size[2] % size[1], element / size[3] % size[2],
                         element % size[3]};
    const Index all[4] = {call.batch, call.heads, call.q_len, call.kv_len};
    Index begin[4], count[4];
    RAPT_UNROLL
    for (int axis = 0; axis < 4; ++axis) {
      begin[axis] = size[axis] == 1 ? 0 : at[axis];
      count[axis] = size[axis] == 1 ? all[axis] : at[axis] < all[axis] ? 1 : 0;
    }
    const Index pairs = count[0] * count[1] * count[2] * count[3];
    CompensatedSum sum = {0, 0};
    for (Index pair = shared ? Target::thread() : 0; pair < pairs; pair += shared ? threads : 1) {
      const Index key = begin[3] + pair % count[3], rest = pair / count[3];
      const Index query = begin[2] + rest % count[2];
      const Index head = begin[1] + rest / count[2] % count[1];
      const semantics::Sequence sequence =
          semantics::sequence(call, begin[0] + rest / count[2] / count[1]);
      if (query < sequence.q_len &&
          semantics::in_window(call.window, query + sequence.offset, key, sequence.kv_len))
        sum.add(m.scores[matrix_row(call, sequence, query, head) * m.keys + key]);
    }
    float result[1] = {sum.total()};
    if constexpr (shared) {
      result[0] = sum_of_block<Target, threads>(result[0]);
      if (Target::thread() > 0) return;
    }
    const Index to = semantics::pair_offset(g.dbias_stride, at[0], at[1], at[2], at[3]);
    store_gradient<Target, Element>(g.dbias, g.dbias_is_f32, to, 0, 1, false, result);
  }
};

template <class Launcher, class Element>
void launch_naive_bias(const NaiveBackwardParameters& m, Where where) {
  using Target = typename Launcher::Target;
  constexpr Index many = 64;  // pairs of an element
  const semantics::Call& call = m.common.call;
  const Index(&size)[4] = m.common.gradients.dbias_size;
  const Index elements = size[0] * size[1] * size[2] * size[3];
  if (elements == 0) return;
  if (rows_of(call) * call.kv_len / elements >= many) {
    Launcher::template launch<NaiveBiasGradients<Target, true, Element>>({elements}, m, where);
  } else {
    using Gradients = NaiveBiasGradients<Target, false, Element>;
    Launcher::template launch<Gradients>({semantics::divided_up(elements, Gradients::threads)}, m,
                                         where);
  }
}

template <class Launcher>
void launch_naive_backward(const NaiveBackwardParameters& m, Where where) {
  using Target = typename Launcher::Target;
  using semantics::divided_up;
  const BackwardParameters& p = m.common;
  const semantics::Call& call = p.call;
  const Index rows = rows_of(call), keys = call.batch * call.kv_len * call.kv_heads;
  with_element(p.dtype, [&]<class Element>() {
    launch_deltas<Launcher, Element>(p, where);
    with_lanes(semantics::larger(call.qk_dim, call.v_dim), [&]<int lanes>() {
      using Pairs = NaivePairs<Target, lanes, Element>;
      Launcher::template launch<Pairs>({divided_up(rows * call.kv_len, Pairs::pairs)}, m, where);
    });
    Launcher::template launch<NaiveQueryGradients<Target, Element>>(
        NaiveRows::grid(rows, call.qk_dim), m, where);
    Launcher::template launch<NaiveKeyGradients<Target, false, Element>>(
        NaiveRows::grid(keys, call.qk_dim), m, where);
    Launcher::template launch<NaiveKeyGradients<Target, true, Element>>(
        NaiveRows::grid(keys, call.v_dim), m, where);
    if (p.gradients.dbias) launch_naive_bias<Launcher, Element>(m, where);
  });
  if (p.gradients.dalibi) {
    using Parts = NaiveSlopeParts<Target>;
    Launcher::template launch<Parts>({divided_up(rows, Parts::rows)}, m, where);
  }
  launch_sums_over_rows<Launcher>(p, where);
}

}  // namespace rapt::gpu
