// tiny_kv: a handful of keys and a huge batch. Memory is the limit, so everything is read once, 16
// bytes a lane, straight into registers: `lanes` neighbouring lanes hold one row (query and head),
// eight elements each. No shared memory, no barrier.
#pragma once

#include "src/gpu/divisor.hpp"
#include "src/gpu/launch.hpp"
#include "src/gpu/rows.hpp"
#include "src/gpu/softmax.hpp"

namespace rapt::gpu {

struct TinyKvParameters {
  semantics::Call call;
  DType dtype;
  int rows;              // batch · q_len · heads
  Divisor heads, q_len;  // of the call
  Divisor group;         // query heads of a kv head
  bool aligned;          // rows of all tensors start at multiples of 16 bytes
};

struct TinyKvConfig {
  int lanes;  // of a row: dims up to 8 · lanes
  // Every query sees every key, scores are scaled dot products, nothing is dropped, accesses are
  // whole.
  bool plain;
};

template <class Target, TinyKvConfig config, class Element>
struct TinyKv {
  using Parameters = TinyKvParameters;
  static constexpr int threads = 128, blocks = 5, shared_bytes = 0;
  static constexpr int each = 8;          // elements of a lane
  static constexpr int keys_at_once = 2;  // whose loads are in flight together
  static constexpr int rows_of_block = threads / config.lanes;

  RAPT_DEVICE static void run(const Parameters& p) {
    const semantics::Call& call = p.call;
    const Index wanted = Index{Target::block_x()} * rows_of_block + Target::thread() / config.lanes;
    const bool exists = wanted < p.rows;  // lanes without a row still take part in shuffles
    const int row = exists ? static_cast<int>(wanted) : p.rows - 1;
    const int token = p.heads.quotient(row), head = row - token * p.heads.value;
    const int query = p.q_len.remainder(token);
    const Index batch = p.q_len.quotient(token);
    const semantics::Sequence sequence =
        config.plain ? semantics::Sequence{batch, 0, call.q_len, 0, call.kv_len, 0}
                     : semantics::sequence(call, batch);
    const bool real = exists && (config.plain || query < sequence.q_len);
    const Index position = query + sequence.offset;
    const semantics::KeyRanges keys =
        config.plain ? semantics::KeyRanges{{0, 0}, {0, call.kv_len}}
        : real       ? semantics::visible_keys(call.window, position, sequence.kv_len)
                     : semantics::KeyRanges{};
    const semantics::Place place = config.plain ? semantics::Place{batch, query}
                                                : semantics::query_place(call, sequence, query);
    const int kv_head = p.group.quotient(head);
    const Index at = Target::thread() % config.lanes * each;
    const bool whole_qk = config.plain || whole_accesses<Element>(p.aligned, call.qk_dim);
    const bool whole_v = config.plain || whole_accesses<Element>(p.aligned, call.v_dim);

    // Loads first, so that all are in flight before the first is waited for.
    const auto q = load_raw_row<Target, each>(
        static_cast<const Element*>(call.q) + semantics::row_offset(call.q_stride, place, head), at,
        real ? call.qk_dim : 0, whole_qk);
    RowState state = config.plain ? RowState{minus_infinity, 0} : first_state(call, head);
    float out[each] = {};
    for (int first = 0; first < call.kv_len; first += keys_at_once) {
      RawRow<Element, each> k[keys_at_once], v[keys_at_once];
      RAPT_UNROLL
      for (int i = 0; i < keys_at_once; ++i) {
        const Index key = first + i;
        const bool seen = semantics::holds(keys, key);
        const semantics::Place where = !seen          ? semantics::Place{0, 0}
                                       : config.plain ? semantics::Place{batch, key}
                                                      : semantics::key_place(call, sequence, key);
        k[i] = load_raw_row<Target, each>(static_cast<const Element*>(call.k) +
                                              semantics::row_offset(call.k_stride, where, kv_head),
                                          at, seen ? call.qk_dim : 0, whole_qk);
        v[i] = load_raw_row<Target, each>(static_cast<const Element*>(call.v) +
                                              semantics::row_offset(call.v_stride, where, kv_head),
                                          at, seen ? call.v_dim : 0, whole_v);
      }
      float exponent[keys_at_once], new_max = state.row_max;
      RAPT_UNROLL
      for (int i = 0; i < keys_at_once; ++i) {
        const Index key = first + i;
        float dot = 0;
        RAPT_UNROLL
        for (int j = 0; j < each; ++j)
          dot += Target::to_float(q.at(j)) * Target::to_float(k[i].at(j));
        dot = sum_over<Target, config.lanes>(dot);
        exponent[i] = minus_infinity;
        if (semantics::holds(keys, key)) {
          exponent[i] = !config.plain && has_score_mod(call)
                            ? scored_exponent<Target, Element>(call, sequence.index, head, query,
                                                               position, key, dot)
                            : Target::product(dot, call.scale * log2_e);
        }
        new_max = exponent[i] > new_max ? exponent[i] : new_max;
      }
      const float base = finite_max(new_max);
      const float rescale = rescale_factor<Target>(state.row_max, new_max);
      state.row_max = new_max;
      state.sum *= rescale;
      RAPT_UNROLL
      for (int j = 0; j < each; ++j) out[j] *= rescale;
      RAPT_UNROLL
      for (int i = 0; i < keys_at_once; ++i) {
        const float weight = Target::exp2(exponent[i] - base);
        state.sum += weight;
        if (!config.plain && semantics::is_dropped(call.dropout, batch, head, query, first + i))
          continue;
        RAPT_UNROLL
        for (int j = 0; j < each; ++j) out[j] += weight * Target::to_float(v[i].at(j));
      }
    }
    if (!real) return;
    float factor = reciprocal_or_zero(state.sum);
    if (!config.plain && call.dropout.seed) factor *= semantics::kept_scale<float>(call.dropout);
    RAPT_UNROLL
    for (int j = 0; j < each; ++j) out[j] *= factor;
    OutRow<Element>(call, place, head, p.aligned, config.plain).template store<Target>(at, out);
    if (call.lse && at == 0)
      call.lse[semantics::lse_offset(call, place, head)] = natural_log_sum<Target>(state);
  }
};

// Whether the plain variant takes a call.
inline bool is_plain(const TinyKvParameters& p) {
  const semantics::Call& call = p.call;
  return p.aligned && call.qk_dim % 8 == 0 && call.v_dim % 8 == 0 && !call.window.has_left &&
         !call.window.has_right && !has_score_mod(call) && !call.dropout.seed && !call.sinks &&
         !call.q_starts && !call.kv_starts && !call.kv_lengths && !call.page_table;
}

template <class Launcher>
void launch_tiny_kv(const TinyKvParameters& parameters, Where where) {
  const Index least_lanes =
      semantics::divided_up(semantics::larger(parameters.call.qk_dim, parameters.call.v_dim), 8);
  with_element(parameters.dtype, [&]<class Element>() {
    with_one_of<8, 16, 32>(least_lanes, [&]<int lanes>() {
      const auto launch = [&]<bool plain>() {
        using Tiny = TinyKv<typename Launcher::Target, TinyKvConfig{lanes, plain}, Element>;
        const Index blocks = semantics::divided_up(parameters.rows, Tiny::rows_of_block);
        Launcher::template launch<Tiny>({blocks}, parameters, where);
      };
      if (is_plain(parameters))
        launch.template operator()<true>();
      else
        launch.template operator()<false>();
    });
  });
}

}  // namespace rapt::gpu
