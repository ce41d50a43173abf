// What the kernels of backward share: their parameters, what a pair of a query and a key gives, and
// sums over rows.
//
//   P  = e^(score − lse),  D = Σ dout · out − dlse,  dS = P (Z dout · v − D),  dX = dS through the
//   cap;  Z = 1 / (1 − p) for pairs that dropout keeps, 0 for others
//
// D is worked out for every row by a launch of its own, before all others. dsinks and dalibi are
// sums over rows of what each row gives, in one order: by one block each, after all others.
#pragma once

#include "src/gpu/block_reductions.hpp"
#include "src/gpu/launch.hpp"
#include "src/gpu/long_sums.hpp"
#include "src/gpu/rows.hpp"
#include "src/gpu/score_matrix.hpp"
#include "src/semantics/gradients.hpp"

namespace rapt::gpu {

struct BackwardParameters {
  semantics::Call call;
  semantics::Gradients gradients;
  DType dtype;
  bool aligned;  // rows of all tensors start at multiples of 16 bytes
  // Of rows as matrix_row() counts them: D, and −Σ dS |p − j| where dalibi is wanted.
  float *deltas, *slope_parts;
};

// A query of one head, by its number among batch · q_len · heads.
struct BackwardRow {
  semantics::Sequence sequence;
  Index head, query;
  bool exists;

  RAPT_DEVICE BackwardRow(const semantics::Call& call, Index number)
      : head(number % call.heads), query(number / call.heads % call.q_len) {
    const Index batch = number / call.heads / call.q_len;
    exists = batch < call.batch;
    sequence = semantics::sequence(call, exists ? batch : 0);
    exists = exists && query < sequence.q_len;
  }
  RAPT_DEVICE Index position() const { return query + sequence.offset; }
  RAPT_DEVICE semantics::Place place(const semantics::Call& call) const {
    return semantics::query_place(call, sequence, query);
  }
  RAPT_DEVICE Index matrix_row(const semantics::Call& call) const {
    return gpu::matrix_row(call, sequence, query, head);
  }
};

// Σ left · right by `lanes` neighbouring lanes; all of them get it.
inline constexpr int dot_width = 8;
template <class Target, int lanes, class Left, class Right>
RAPT_DEVICE float dot_over_lanes(const Left* left, const Right* right, Index dim, bool aligned) {
  CompensatedSum all = {0, 0};
  for (Index at = Target::thread() % lanes * dot_width; at < dim; at += lanes * dot_width) {
    float a[dot_width], b[dot_width], sum = 0;
    load_row<Target>(left, at, dim, whole_accesses<Left>(aligned, dim), a);
    load_row<Target>(right, at, dim, whole_accesses<Right>(aligned, dim), b);
    RAPT_UNROLL
    for (int i = 0; i < dot_width; ++i) sum += a[i] * b[i];
    all.add(sum);
  }
  return sum_over<Target, lanes>(all.total());
}

// Lanes that share a dot product: rows of up to 128 dims leave no more of them busy.
template <class Function>
void with_lanes(Index dim, Function&& function) {
  if (dim <= 128)
    function.template operator()<8>();
  else
    function.template operator()<32>();
}

template <class Element>
RAPT_DEVICE bool out_has_f32(const semantics::Call& call) {
  return sizeof(Element) == 4 || call.out_is_f32;
}

// Calls function(row) with the address of the type that out and dout have.
template <class Element, class Function>
RAPT_DEVICE auto with_out_row(const semantics::Call& call, const void* data, Index at,
                              Function function) {
  return out_has_f32<Element>(call) ? function(static_cast<const float*>(data) + at)
                                    : function(static_cast<const Element*>(data) + at);
}

template <class Target, int lanes, class Element>
struct RowDeltas {
  using Parameters = BackwardParameters;
  static constexpr int threads = 128, blocks = 8, shared_bytes = 0;
  static constexpr int rows = threads / lanes;

  RAPT_DEVICE static void run(const Parameters& p) {
    const semantics::Call& call = p.call;
    const semantics::Gradients& g = p.gradients;
    const BackwardRow row(call, Index{Target::block_x()} * rows + Target::thread() / lanes);
    const semantics::Place place = row.place(call);
    const Index dim = row.exists ? call.v_dim : 0;  // all lanes take part in the sum
    const float sum = with_out_row<Element>(
        call, g.dout, semantics::row_offset(g.dout_stride, place, row.head), [&](const auto* dout) {
          return with_out_row<Element>(
              call, call.out, semantics::row_offset(call.out_stride, place, row.head),
              [&](const auto* out) {
                return dot_over_lanes<Target, lanes>(dout, out, dim, p.aligned);
              });
        });
    if (!row.exists || Target::thread() % lanes > 0) return;
    const float dlse =
        g.dlse ? g.dlse[semantics::lse_offset(g.dlse_stride, place, row.head)] : 0.0f;
    p.deltas[row.matrix_row(call)] = sum - dlse;
  }
};

// What a pair gives. All 0 for one that is not visible.
struct PairGradients {
  float weight, of_score, of_dot;  // P (without Z), dS, dX
};

// From its score, −∞ for a pair that is not visible; dout_v: Z dout · v.
template <class Target>
RAPT_DEVICE PairGradients gradients_of_score(const semantics::Call& call, float score, float dot,
                                             float dout_v, float lse, float delta) {
  if (score == minus_infinity) return {0, 0, 0};
  const float weight = Target::exp2(Target::product(score - lse, log2_e));
  const float of_score = weight * (dout_v - delta);
  return {weight, of_score, of_score * semantics::cap_slope(call.softcap, call.scale * dot)};
}

RAPT_DEVICE float distance_of(Index position, Index key) {
  return static_cast<float>(position > key ? position - key : key - position);
}

// Elements dim … dim + n − 1 of a gradient's row, which begins at `at`.
template <class Target, class Element, int n>
RAPT_DEVICE void store_gradient(void* data, bool is_f32, Index at, Index dim, Index dims,
                                bool aligned, const float (&from)[n]) {
  if (sizeof(Element) == 4 || is_f32)
    store_row<Target>(static_cast<float*>(data) + at, dim, dims,
                      whole_accesses<float>(aligned, dims), from);
  else
    store_row<Target>(static_cast<Element*>(data) + at, dim, dims,
                      whole_accesses<Element>(aligned, dims), from);
}

// dsinks, or dalibi: a block each.
template <class Target, bool sinks>
struct SumOverRows {
  using Parameters = BackwardParameters;
  static constexpr int threads = 256, blocks = 4, shared_bytes = threads * 4;

  RAPT_DEVICE static void run(const Parameters& p) {
    const semantics::Call& call = p.call;
    const semantics::Gradients& g = p.gradients;
    const Index head = Target::block_x() % call.heads, b = Target::block_x() / call.heads;
    const bool one_sequence = !sinks && g.dalibi_stride != 0;
    const Index first = one_sequence ? b * call.q_len : 0;
    const Index end = one_sequence ? first + call.q_len : call.batch * call.q_len;
    CompensatedSum sum = {0, 0};
    for (Index i = first + Target::thread(); i < end; i += threads) {
      const BackwardRow row(call, i * call.heads + head);
      if (row.exists) sum.add(part(p, row));
    }
    const float total = sum_of_block<Target, threads>(sum.total());
    if (Target::thread() > 0) return;
    if constexpr (sinks)
      g.dsinks[head] = total;
    else
      g.dalibi[b * g.dalibi_stride + head] = total;
  }

 private:
  RAPT_DEVICE static float part(const Parameters& p, const BackwardRow& row) {
    const semantics::Call& call = p.call;
    const Index at = row.matrix_row(call);
    if constexpr (!sinks) return p.slope_parts[at];
    const float sink = call.sinks[row.head];
    if (sink == minus_infinity) return 0;  // as if it were not there
    const float lse = call.lse[semantics::lse_offset(call, row.place(call), row.head)];
    return -Target::exp2(Target::product(sink - lse, log2_e)) * p.deltas[at];
  }
};

inline Index rows_of(const semantics::Call& call) { return call.batch * call.q_len * call.heads; }

template <class Launcher, class Element>
void launch_deltas(const BackwardParameters& p, Where where) {
  with_lanes(p.call.v_dim, [&]<int lanes>() {
    using Deltas = RowDeltas<typename Launcher::Target, lanes, Element>;
    Launcher::template launch<Deltas>({semantics::divided_up(rows_of(p.call), Deltas::rows)}, p,
                                      where);
  });
}

template <class Launcher>
void launch_sums_over_rows(const BackwardParameters& p, Where where) {
  using Target = typename Launcher::Target;
  if (p.gradients.dsinks)
    Launcher::template launch<SumOverRows<Target, true>>({p.call.heads}, p, where);
  const Index sequences = p.gradients.dalibi_stride != 0 ? p.call.batch : 1;
  if (p.gradients.dalibi)
    Launcher::template launch<SumOverRows<Target, false>>({sequences * p.call.heads}, p, where);
}

}  // namespace rapt::gpu
