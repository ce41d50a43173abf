// gemm: the traditional path. A library multiplies whole matrices; kernels do the rest around it.
//
//   gather    Q, K and V as dense matrices, zeros where nobody may look
//   scores    S (rows, keys) = Q Kᵀ              by the library
//   softmax   weights P (rows, keys), the sum of each row, and what dropout leaves of P
//   sums      (rows, v dim) = P V                by the library
//   finish    out = sums / the row's sum, scaled where there is dropout
//
// An item is a kv head of a sequence; its rows are the queries of all heads of the group. A library
// wants the same sizes for all items, and knows nothing of lengths, pages and windows: each item
// has the room of the longest sequence, and 0 · 0 is what becomes of keys that no row sees.
#pragma once

#include "src/gpu/block_reductions.hpp"
#include "src/gpu/key_rows.hpp"
#include "src/gpu/launch.hpp"
#include "src/gpu/long_sums.hpp"
#include "src/gpu/rows.hpp"
#include "src/gpu/softmax.hpp"

namespace rapt::gpu {

inline constexpr Index gemm_padding = 8;  // dims and keys of the dense matrices are multiples of it

// As BLAS has it, by columns: result (m, n) = op(a) (m, k) · b (k, n), for `count` matrices. A step
// leads from one matrix to the next, a stride from one column to the next, both in elements.
struct Product {
  DType dtype;  // of a and b; the result is f32
  bool tf32;
  Index count, m, n, k;
  bool a_transposed;
  const void* a;
  Index a_stride, a_step;
  const void* b;
  Index b_stride, b_step;
  float* result;
  Index result_stride, result_step;
  bool add;  // to what the result holds
};

// Who multiplies. The product goes into the stream that the context knows.
struct Products {
  void (*multiply)(const Product&, void* context);
  void* context;
};

struct GemmParameters {
  semantics::Call call;
  DType dtype;
  bool tf32;
  bool aligned;             // rows of all tensors start at multiples of 16 bytes
  Index first_item, items;  // of this pass
  Index rows, keys;         // of an item
  Index qk_dim, v_dim;      // padded
  void *q, *k, *v;          // (items, rows, qk_dim), (items, keys, qk_dim), (items, keys, v_dim)
  float* scores;            // (items, rows, keys)
  void* weights;            // the same in the element type; f32: in place of the scores
  float* row_sums;          // (items, rows)
  float* sums;              // (parts, items, rows, v_dim)
};

// Products over so much depth at once. What they give is added up in parts, so that neither the
// terms of a product nor the products of a part are too many for f32 (sums.hpp).
inline constexpr Index products_of_part = 32;
RAPT_HOST_DEVICE Index gemm_span(DType dtype, bool tf32) {
  return dtype == DType::f32 && !tf32 ? span_of_sums<float> : span_of_sums<F16>;
}
RAPT_HOST_DEVICE Index gemm_parts(Index keys, Index span) {
  return semantics::divided_up(keys, span * products_of_part);
}

// One of the matrices' rows: whose it is.
struct GemmRow {
  semantics::Sequence sequence;
  Index kv_head, head, query;  // query ≥ sequence.q_len: nobody's
};
RAPT_DEVICE GemmRow gemm_row(const GemmParameters& p, Index row) {
  const semantics::Call& call = p.call;
  const Index item = p.first_item + row / p.rows, in_item = row % p.rows;
  const Index kv_head = item % call.kv_heads;
  return {semantics::sequence(call, item / call.kv_heads), kv_head,
          kv_head * (call.heads / call.kv_heads) + in_item / call.q_len, in_item % call.q_len};
}

// 32 threads copy a row, 8 elements each at a time.
template <class Target, class Element>
struct GemmGather {
  using Parameters = GemmParameters;
  static constexpr int threads = 256, blocks = 4, shared_bytes = 0;
  static constexpr int lanes = 32, rows = threads / lanes;

  RAPT_DEVICE static void run(const Parameters& p) {
    const semantics::Call& call = p.call;
    const Index query_rows = p.items * p.rows, key_rows = p.items * p.keys;
    const Index row = Index{Target::block_x()} * rows + Target::thread() / lanes;
    if (row < query_rows) {
      copy(query(p, row), static_cast<Element*>(p.q) + row * p.qk_dim, call.qk_dim, p.qk_dim,
           p.aligned);
    } else if (row < query_rows + key_rows) {
      const Index at = row - query_rows;
      copy(key(p, at, call.k, call.k_stride), static_cast<Element*>(p.k) + at * p.qk_dim,
           call.qk_dim, p.qk_dim, p.aligned);
    } else if (row < query_rows + 2 * key_rows) {
      const Index at = row - query_rows - key_rows;
      copy(key(p, at, call.v, call.v_stride), static_cast<Element*>(p.v) + at * p.v_dim, call.v_dim,
           p.v_dim, p.aligned);
    }
  }

 private:
  // Null: a row of zeros.
  RAPT_DEVICE static const Element* query(const Parameters& p, Index row) {
    const GemmRow r = gemm_row(p, row);
    if (r.query >= r.sequence.q_len) return nullptr;
    const semantics::Place place = semantics::query_place(p.call, r.sequence, r.query);
    return static_cast<const Element*>(p.call.q) +
           semantics::row_offset(p.call.q_stride, place, r.head);
  }
  RAPT_DEVICE static const Element* key(const Parameters& p, Index row, const void* data,
                                        const Index (&stride)[3]) {
    const semantics::Call& call = p.call;
    const Index item = p.first_item + row / p.keys, key = row % p.keys;
    const semantics::Sequence sequence = semantics::sequence(call, item / call.kv_heads);
    if (sequence.q_len == 0) return nullptr;
    const semantics::KeyRanges seen = semantics::visible_to_some(
        call.window, sequence.offset, sequence.offset + sequence.q_len - 1, sequence.kv_len);
    if (!semantics::holds(seen, key)) return nullptr;
    return KeyRows<Element>(call, sequence, data, stride, item % call.kv_heads).at(key);
  }

  RAPT_DEVICE static void copy(const Element* from, Element* to, Index dim, Index padded_dim,
                               bool aligned) {
    constexpr int each = static_cast<int>(gemm_padding);
    const bool whole = whole_accesses<Element>(aligned, dim);
    for (Index at = Target::thread() % lanes * each; at < padded_dim; at += lanes * each) {
      RawRow<Element, each> raw = {};
      if (from) raw = load_raw_row<Target, each>(from, at, dim, whole);
      RAPT_UNROLL
      for (int i = 0; i < each / elements_per_access<Element>; ++i)
        Target::store(reinterpret_cast<Vector<uint32_t, 4>*>(to + at) + i, raw.access[i]);
    }
  }
};

// One block a row.
template <class Target, class Element>
struct GemmSoftmax {
  using Parameters = GemmParameters;
  static constexpr int threads = 256, blocks = 4, shared_bytes = threads * 4;

  RAPT_DEVICE static void run(const Parameters& p) {
    const semantics::Call& call = p.call;
    const Index row = Target::block_x();
    const GemmRow r = gemm_row(p, row);
    if (r.query >= r.sequence.q_len) return;
    const Index position = r.query + r.sequence.offset;
    const semantics::KeyRanges keys =
        semantics::visible_keys(call.window, position, r.sequence.kv_len);
    const semantics::Range seen = semantics::span_of(keys);
    float* scores = p.scores + row * p.keys;
    auto* weights = static_cast<Element*>(p.weights) + row * p.keys;
    const Element zero = Target::template from_float<Element>(0);

    // Exponents in place of the scores, and their largest.
    float largest = minus_infinity;
    for (Index key = seen.begin + Target::thread(); key < seen.end; key += threads) {
      const float dot = scores[key];
      const float exponent = !semantics::holds(keys, key) ? minus_infinity
                             : has_score_mod(call)
                                 ? scored_exponent<Target, Element>(call, r.sequence.index, r.head,
                                                                    r.query, position, key, dot)
                                 : dot * (call.scale * log2_e);
      scores[key] = exponent;
      largest = exponent > largest ? exponent : largest;
    }
    largest = largest_of_block<Target, threads>(largest);

    // The same threads read what they wrote; f32 weights take its place. They are relative to the
    // largest of them: a sink may be so much larger that 16 bits could not hold them.
    // Of a row without keys the sink is all there is.
    const RowState sink = first_state(call, r.head);
    const float base = finite_max(largest == minus_infinity ? sink.row_max : largest);
    const semantics::DropoutStream dropout =
        semantics::dropout_stream(call.dropout, r.sequence.index, r.head);
    CompensatedSum sum = {0, 0};
    for (Index key = seen.begin + Target::thread(); key < seen.end; key += threads) {
      const float weight = Target::exp2(scores[key] - base);
      weights[key] = semantics::keeps(dropout, r.query, key)
                         ? Target::template from_float<Element>(weight)
                         : zero;
      sum.add(weight);
    }
    for (Index key = Target::thread(); key < seen.begin; key += threads) weights[key] = zero;
    for (Index key = seen.end + Target::thread(); key < p.keys; key += threads) weights[key] = zero;
    const float total = sum_of_block<Target, threads>(sum.total());
    if (Target::thread() > 0) return;
    p.row_sums[row] = total + sink.sum * Target::exp2(sink.row_max - base);
    if (call.lse) {
      const float new_max = largest > sink.row_max ? largest : sink.row_max;
      const float origin = finite_max(new_max);
      const float whole =
          total * Target::exp2(largest - origin) + sink.sum * Target::exp2(sink.row_max - origin);
      const semantics::Place place = semantics::query_place(call, r.sequence, r.query);
      call.lse[semantics::lse_offset(call, place, r.head)] =
          natural_log_sum<Target>({new_max, whole});
    }
  }
};

// One thread for four elements of out.
template <class Target, class Element>
struct GemmFinish {
  using Parameters = GemmParameters;
  static constexpr int threads = 256, blocks = 4, shared_bytes = 0, each = 4;

  RAPT_DEVICE static void run(const Parameters& p) {
    const semantics::Call& call = p.call;
    const Index at = (Index{Target::block_x()} * threads + Target::thread()) * each;
    const Index row = at / p.v_dim, dim = at % p.v_dim;
    if (row >= p.items * p.rows || dim >= call.v_dim) return;
    const GemmRow r = gemm_row(p, row);
    if (r.query >= r.sequence.q_len) return;
    const Index part = p.items * p.rows * p.v_dim;
    const Index parts = gemm_parts(p.keys, gemm_span(p.dtype, p.tf32));
    CompensatedSum sums[each] = {};
    for (Index i = 0; i < parts; ++i) {
      const auto four =
          Target::load(reinterpret_cast<const Vector<float, each>*>(p.sums + i * part + at));
      RAPT_UNROLL
      for (int y = 0; y < each; ++y) sums[y].add(four.at[y]);
    }
    const float factor =
        reciprocal_or_zero(p.row_sums[row]) * semantics::kept_scale<float>(call.dropout);
    float out[each];
    RAPT_UNROLL
    for (int y = 0; y < each; ++y) out[y] = sums[y].total() * factor;
    const semantics::Place place = semantics::query_place(call, r.sequence, r.query);
    OutRow<Element>(call, place, r.head, p.aligned).template store<Target>(dim, out);
  }
};

// A matrix by rows is its transpose by columns. So with rows in memory as they are here
//
//   Sᵀ (keys, rows) = K (keys, dim) · Qᵀ (dim, rows)       K by columns is Kᵀ, hence transposed
//   sumsᵀ (v dim, rows) = Vᵀ (v dim, keys) · Pᵀ (keys, rows)                      all as they lie
//
// and every stride is the length of a row.
template <class Element>
void multiply_scores(const GemmParameters& p, const Products& products) {
  const Index span = gemm_span(p.dtype, p.tf32);
  for (Index dim = 0; dim < p.qk_dim; dim += span) {
    products.multiply(
        {
            .dtype = p.dtype,
            .tf32 = p.tf32,
            .count = p.items,
            .m = p.keys,
            .n = p.rows,
            .k = semantics::smaller(span, p.qk_dim - dim),
            .a_transposed = true,
            .a = static_cast<const Element*>(p.k) + dim,
            .a_stride = p.qk_dim,
            .a_step = p.keys * p.qk_dim,
            .b = static_cast<const Element*>(p.q) + dim,
            .b_stride = p.qk_dim,
            .b_step = p.rows * p.qk_dim,
            .result = p.scores,
            .result_stride = p.keys,
            .result_step = p.rows * p.keys,
            .add = dim > 0,
        },
        products.context);
  }
}

template <class Element>
void multiply_values(const GemmParameters& p, const Products& products) {
  const Index span = gemm_span(p.dtype, p.tf32), keys_of_part = span * products_of_part;
  for (Index key = 0; key < p.keys; key += span) {
    products.multiply(
        {
            .dtype = p.dtype,
            .tf32 = p.tf32,
            .count = p.items,
            .m = p.v_dim,
            .n = p.rows,
            .k = semantics::smaller(span, p.keys - key),
            .a_transposed = false,
            .a = static_cast<const Element*>(p.v) + key * p.v_dim,
            .a_stride = p.v_dim,
            .a_step = p.keys * p.v_dim,
            .b = static_cast<const Element*>(p.weights) + key,
            .b_stride = p.keys,
            .b_step = p.rows * p.keys,
            .result = p.sums + key / keys_of_part * p.items * p.rows * p.v_dim,
            .result_stride = p.v_dim,
            .result_step = p.rows * p.v_dim,
            .add = key % keys_of_part > 0,
        },
        products.context);
  }
}

// One pass, over p.items.
template <class Launcher>
void launch_gemm(const GemmParameters& p, const Products& products, Where where) {
  with_element(p.dtype, [&]<class Element>() {
    using Gather = GemmGather<typename Launcher::Target, Element>;
    using Softmax = GemmSoftmax<typename Launcher::Target, Element>;
    using Finish = GemmFinish<typename Launcher::Target, Element>;
    const Index rows = p.items * p.rows;
    Launcher::template launch<Gather>(
        {semantics::divided_up(rows + 2 * p.items * p.keys, Gather::rows)}, p, where);
    multiply_scores<Element>(p, products);
    Launcher::template launch<Softmax>({rows}, p, where);
    multiply_values<Element>(p, products);
    Launcher::template launch<Finish>(
        {semantics::divided_up(rows * p.v_dim, Finish::threads * Finish::each)}, p, where);
  });
}

}  // namespace rapt::gpu
