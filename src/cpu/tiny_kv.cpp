// cpu.tiny_kv: a handful of keys and a huge batch. Memory is the limit, so each (sequence, kv head)
// is read once, in order, and its results are written right away; nothing is packed, split or
// merged, and scores live on the stack.
#include "src/cpu/simd/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/cpu/tiny_kv.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "src/core/call.hpp"
#include "src/cpu/dropout.hpp"
#include "src/cpu/row_operations.hpp"
#include "src/cpu/simd/softmax-inl.hpp"

#ifndef RAPT_TINY_KV_ONCE
#define RAPT_TINY_KV_ONCE
namespace rapt {
inline constexpr semantics::Index most_tiny_keys = 16;
inline constexpr semantics::Index most_tiny_lanes = 64;  // f32 in the longest vector of SVE
}  // namespace rapt
#endif

HWY_BEFORE_NAMESPACE();
namespace rapt::HWY_NAMESPACE {
namespace {

using semantics::Index;

// That an accumulator adds one after another: equal ones are all rounded the same way.
constexpr Index most_terms = 8;

Index lanes() { return static_cast<Index>(hn::Lanes(Floats())); }

template <class Element>
HWY_INLINE float dot(const Element* HWY_RESTRICT a, const Element* HWY_RESTRICT b, Index dim) {
  const Floats d;
  const Index width = lanes(), whole = dim / width * width;
  double sum = 0;
  Index i = 0;
  while (i < whole) {
    FloatVector sum0 = hn::Zero(d), sum1 = hn::Zero(d);
    const Index end = std::min(i + 2 * most_terms * width, whole);
    for (; i + 2 * width <= end; i += 2 * width) {
      sum0 = hn::MulAdd(load_floats(d, a + i), load_floats(d, b + i), sum0);
      sum1 = hn::MulAdd(load_floats(d, a + i + width), load_floats(d, b + i + width), sum1);
    }
    for (; i < end; i += width)
      sum0 = hn::MulAdd(load_floats(d, a + i), load_floats(d, b + i), sum0);
    sum += hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)));
  }
  for (; i < dim; ++i) sum += double{to_float(a[i])} * to_float(b[i]);
  return static_cast<float>(sum);
}

// out = start + Σ weights[key] · v[key]
template <class Element, class Out>
HWY_INLINE void weighted_sum(float start, const float* weights, const Element* const* v, Index keys,
                             Index dim, Out* HWY_RESTRICT out) {
  const Floats d;
  const Index width = lanes();
  Index i = 0;
  for (; i + width <= dim; i += width) {
    FloatVector sum = hn::Set(d, start);
    for (Index key = 0; key < keys; ++key)
      sum = hn::MulAdd(hn::Set(d, weights[key]), load_floats(d, v[key] + i), sum);
    store_floats(sum, out + i);
  }
  for (; i < dim; ++i) {
    float sum = start;
    for (Index key = 0; key < keys; ++key) sum += weights[key] * to_float(v[key][i]);
    out[i] = from_float<Out>(sum);
  }
}

// Scores of one row, which has seen its sink, become weights that sum to 1 (with the sink's).
HWY_INLINE void normalize(float* scores, Index count, float scale, RowState& row) {
  softmax_row(scores, {0, count}, {0, count}, scale, row.reference, row.sum);
  const float factor = inverse_sum(row);
  for (Index i = 0; i < count; ++i) scores[i] *= factor;
}

// All queries of the heads of one kv head.
template <class Element>
void attend(const semantics::Call& call, DType dtype, const semantics::Sequence& sequence,
            Index kv_head) {
  const bool scoring = has_scoring(call);
  const Element *k[most_tiny_keys], *v[most_tiny_keys];
  for (Index key = 0; key < sequence.kv_len; ++key) {
    const auto place = semantics::key_place(call, sequence, key);
    k[key] =
        static_cast<const Element*>(call.k) + semantics::row_offset(call.k_stride, place, kv_head);
    v[key] =
        static_cast<const Element*>(call.v) + semantics::row_offset(call.v_stride, place, kv_head);
  }
  const Index group = call.heads / call.kv_heads;
  for (Index query = 0; query < sequence.q_len; ++query) {
    const auto place = semantics::query_place(call, sequence, query);
    const semantics::KeyRanges keys =
        semantics::visible_keys(call.window, query + sequence.offset, sequence.kv_len);
    // What the query sees, without a gap.
    const Index first = keys.first.end, count = first + keys.window.end - keys.window.begin;
    const Element *const *seen_k = k + keys.window.begin, *const *seen_v = v + keys.window.begin;
    const Element *gathered_k[most_tiny_keys], *gathered_v[most_tiny_keys];
    if (first > 0) {
      for (Index i = 0; i < count; ++i) {
        const Index key = i < first ? i : keys.window.begin + i - first;
        gathered_k[i] = k[key];
        gathered_v[i] = v[key];
      }
      seen_k = gathered_k;
      seen_v = gathered_v;
    }
    for (Index head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      const auto* q =
          static_cast<const Element*>(call.q) + semantics::row_offset(call.q_stride, place, head);
      HWY_ALIGN float scores[std::max(most_tiny_keys, most_tiny_lanes)];
      for (Index i = 0; i < count; ++i) scores[i] = dot(q, seen_k[i], call.qk_dim);
      const auto score = [&](semantics::Range range, float* dots) {
        if (semantics::is_empty(range)) return;
        row_operations().score(row_scoring(call, dtype, sequence, head, query, range.begin), dots,
                               range.end - range.begin);
      };
      if (scoring) {
        score(keys.first, scores);
        score(keys.window, scores + first);
      }
      RowState row = state_of_sink(call, head);
      normalize(scores, count, scoring ? log2_e : call.scale * log2_e, row);
      if (call.dropout.seed) {
        const semantics::DropoutStream dropout =
            semantics::dropout_stream(call.dropout, sequence.index, head);
        const float kept = semantics::kept_scale<float>(call.dropout);
        apply_dropout(dropout, query, keys.first, kept, scores);
        apply_dropout(dropout, query, keys.window, kept, scores + first);
      }
      const float start = 0 * inverse_sum(row);  // a NaN sink is one without keys, too
      const auto store = [&](auto* out) {
        weighted_sum(start, scores, seen_v, count, call.v_dim,
                     out + semantics::row_offset(call.out_stride, place, head));
      };
      if (call.out_is_f32)
        store(static_cast<float*>(call.out));
      else
        store(static_cast<Element*>(call.out));
      if (call.lse) call.lse[semantics::lse_offset(call, place, head)] = natural_log(row);
    }
  }
}

// Sequences first … last − 1.
void attend_sequences(const semantics::Call& call, DType dtype, Index first, Index last) {
  with_element_type(dtype, [&](auto type) {
    for (Index b = first; b < last; ++b) {
      const semantics::Sequence sequence = semantics::sequence(call, b);
      for (Index kv_head = 0; kv_head < call.kv_heads; ++kv_head)
        attend<decltype(type)>(call, dtype, sequence, kv_head);
    }
  });
}

}  // namespace

constexpr auto tiny_kv = attend_sequences;

}  // namespace rapt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "src/core/parallel.hpp"
#include "src/core/text.hpp"
#include "src/cpu/kernels.hpp"

namespace rapt {
namespace {

using semantics::Index;

using Attend = void (*)(const semantics::Call&, DType, Index first, Index last);
Attend best_attend() { RAPT_BEST_TARGET(tiny_kv); }

Support supports(const Problem& p, const Device&) {
  if (p.kv_len > most_tiny_keys)
    return Support::no(
        text("it takes up to ", most_tiny_keys, " keys; this problem has ", p.kv_len));
  if (p.batch_invariant && p.bounded())
    return Support::no(
        "sequences of other batches may have more keys than it takes; it cannot be "
        "batch-invariant");
  return Support::yes();
}

// It reads everything once. Few rows leave it to the latency of each.
Estimate estimate(const Task& task) {
  const Problem& p = task.problem;
  const double busy = std::min(1.0, std::max(1.0, double(p.batch)) / task.device.threads);
  const double rows = double(p.total_q) * double(p.heads);
  const double overhead = 2e-6 + rows * 40e-9 / (busy * task.device.threads);
  return estimate_from(p.flops(), 0.2 * busy * task.device.nominal.f32_flops, p.bytes(),
                       busy * task.device.nominal.read_bandwidth, overhead);
}

std::size_t workspace(const Task&) { return 0; }

std::unique_ptr<const Prepared> prepare(const Task& task) {
  return prepared([task, attend = best_attend()](const semantics::Call& call, const Launch&) {
    // A few items a thread, each of neighbouring sequences.
    const Index wanted = Index{8} * task.device.threads;
    const Index each = std::max<Index>(1, (call.batch + wanted - 1) / wanted);
    parallel_for_slots(*task.executor, task.device.threads, (call.batch + each - 1) / each,
                       [&](Index, Index item) {
                         attend(call, task.problem.dtype, item * each,
                                std::min(call.batch, (item + 1) * each));
                       });
  });
}

}  // namespace

const Kernel cpu_tiny_kv = {
    .name = "cpu.tiny_kv",
    .summary = "a handful of keys and a huge batch, straight through memory",
    .backend = Backend::cpu,
    .by_name_only = false,
    .supports = supports,
    .configs = one_empty_config,
    .estimate = estimate,
    .workspace = workspace,
    .prepare = prepare,
};

}  // namespace rapt
#endif
