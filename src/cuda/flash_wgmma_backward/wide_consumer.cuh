// The consumer for more than 128 dims: a warpgroup with 64 or 128 of the dims of dK and dV, for all
// keys of the block, step after step of 64 queries.
//
//   tensor cores   │ S 0 │ dP 0        │              │ dV 0 │ dQ 0 │ dK 0 │ dQ 0 │ S 1 │ dP 1 …
//   other units          │ P 0, staged │ dS 0, staged ┊             │ dQ 0 ┊      │ dQ 0  │ P 1 …
//                                                     ┊             to the storer, a part or two
//                               all warpgroups' P 0 and dS 0 are there
#pragma once

#include "src/cuda/flash_wgmma_backward/consumer_base.cuh"
#include "src/cuda/flash_wgmma_backward/store_rows.cuh"
#include "src/cuda/flash_wgmma_backward/wide_mma.cuh"
#include "src/cuda/hopper/promoted_matrix.cuh"
#include "src/gpu/long_sums.hpp"
#include "src/gpu/softmax.hpp"

namespace rapt::cuda::flash_wgmma_backward {

template <TileConfig config, class Element>
class WideConsumer : public ConsumerBase<config, WideConsumer<config, Element>> {
 public:
  using Mma = WideMma<config, Element>;
  using ConsumerBase<config, WideConsumer>::ConsumerBase;

  RAPT_DEVICE void compute(const WorkTile& work, int loaded, typename Mma::Sums& dk,
                           typename Mma::Sums& dv) {
    const Unmasked unmasked = unmasked_queries(work);
    const int heads = static_cast<int>(p_.common.call.heads / p_.common.call.kv_heads);
    int head = 0, at = 0;  // of the group, and of its walk
    hopper::PromotedMatrix<config.keys / 8> promoted_dk[panels], promoted_dv[panels];
    unsigned char* const weights_tile = shared_.staged[1];
    unsigned char* const gradients_tile = shared_.staged[0];
    shared_.value_ring.wait_full(loaded);
    for (int left = steps_of(work); left > 0; --left) {
      const int query_buffer = hopper::ring_index<config.query_stages>(step_);
      const int dout_buffer = hopper::ring_index<config.dout_stages>(step_);
      const unsigned char* const queries = shared_.queries[query_buffer];
      const unsigned char* const dout = shared_.douts[dout_buffer];
      const int query = work.walk.tile(at) * config.queries;
      const int this_head = work.kv_head * heads + head;
      if (++at == work.walk.count) {
        at = 0;
        ++head;
      }
      typename Mma::Pairs scores, pairs;  // S, dP
      typename Mma::Packed weights, gradients;
      Kept kept;
      shared_.query_ring.wait_full(step_);
      Mma::issue_pairs(queries, shared_.keys, group_, scores);
      shared_.dout_ring.wait_full(step_);
      if constexpr (config.score_mod) {  // too much for products in flight
        ptx::wgmma_wait<0>();
        ptx::fence_operand(scores);
        kept = draw(work, this_head, query);
        make_scored_weights(work, this_head, query, shared_.exponents[query_buffer], kept, scores,
                            weights);
        Mma::issue_pairs(dout, shared_.values, group_, pairs);
      } else {
        Mma::issue_pairs(dout, shared_.values, group_, pairs);
        ptx::wgmma_wait<1>();
        ptx::fence_operand(scores);
        make_weights(shared_.exponents[query_buffer], scores);
        if (!is_unmasked(unmasked, query)) hide(work, query, scores);
        Mma::pack(scores, weights);
      }
      if (step_ > 0) ptx::named_barrier_sync(used, all);
      Mma::stage(weights, weights_tile, group_);
      ptx::wgmma_wait<0>();
      ptx::fence_operand(pairs);
      if constexpr (config.score_mod) drop(kept, pairs);
      make_gradients(shared_.deltas[dout_buffer], scores, pairs);
      if (!is_unmasked(unmasked, query)) hide(work, query, pairs);
      Mma::pack(pairs, gradients);
      Mma::stage(gradients, gradients_tile, group_);
      ptx::fence_proxy_async();
      ptx::named_barrier_sync(staged, all);
      typename Mma::QueryGradients dq;
      Mma::issue_sums(dout, weights_tile, group_, dv);
      Mma::issue_dq(gradients_tile, shared_.keys, group_, 0, dq);
      Mma::issue_sums(queries, gradients_tile, group_, dk);
      ptx::wgmma_wait<2>();
      Mma::fence(dv);
      shared_.dout_ring.free_of(step_).arrive_if(Target::lane() == 0);
      ptx::wgmma_wait<1>();
      ptx::fence_operand(dq);
      hand_over(dq, step_ * panels);
      ptx::wgmma_wait<0>();
      Mma::fence(dk);
      shared_.query_ring.free_of(step_).arrive_if(Target::lane() == 0);
      if constexpr (panels > 1) {
        Mma::issue_dq(gradients_tile, shared_.keys, group_, 1, dq);
        ptx::wgmma_wait<0>();
        ptx::fence_operand(dq);
        hand_over(dq, step_ * panels + 1);
      }
      ++step_;
      if (left > 1 && (left - 1) % steps_of_span == 0) {  // counted from the last one
        const bool first_time = left - 1 + steps_of_span >= steps_of(work);
        for_each_panel([&](int panel) {
          promoted_dk[panel].take(dk[panel], first_time);
          promoted_dv[panel].take(dv[panel], first_time);
        });
      }
    }
    if (steps_of(work) > steps_of_span) {
      for_each_panel([&](int panel) {
        promoted_dk[panel].join(dk[panel]);
        promoted_dv[panel].join(dv[panel]);
      });
    }
    shared_.value_ring.free[0].arrive_if(Target::lane() == 0);
  }

  RAPT_DEVICE void store(const WorkTile& work, const typename Mma::Sums& dk,
                         const typename Mma::Sums& dv) const {
    const semantics::Call& call = p_.common.call;
    const semantics::Gradients& g = p_.common.gradients;
    const Index stored = semantics::stored_keys(call, work.sequence);
    const float kept_scale =
        config.score_mod && call.dropout.seed ? semantics::kept_scale<float>(call.dropout) : 1;
    const auto row_of = [&](const Index(&stride)[3], int row) -> StoredRow {
      const Index key = Index{work.key_tile} * config.keys + row;
      const semantics::Place place = semantics::unpaged_key_place(call, work.sequence, key);
      return {semantics::row_offset(stride, place, work.kv_head), key < stored,
              key < work.sequence.kv_len};
    };
    for_each_panel([&](int panel) {
      const int dim = (group_ * panels + panel) * 64;
      store_transposed<Element>(g.dk, g.dk_is_f32, dim, call.qk_dim, call.scale, dk[panel],
                                [&](int row) { return row_of(g.dk_stride, row); });
      store_transposed<Element>(g.dv, g.dv_is_f32, dim, call.v_dim, kept_scale, dv[panel],
                                [&](int row) { return row_of(g.dv_stride, row); });
    });
  }

 private:
  using Base = ConsumerBase<config, WideConsumer>;
  using Base::p_, Base::shared_, Base::group_, Base::step_;
  using Base::uniform, Base::steps_of, Base::is_unmasked, Base::hand_over, Base::queries_of_key,
      Base::for_each;
  using typename Base::Unmasked;

  using Kept = uint32_t;  // which of the thread's pairs dropout keeps, a bit each

  static constexpr int panels = Mma::panels;
  static_assert(panels == config.parts_of_warpgroup() && panels <= 2);

  // Named barriers of all warpgroups: P and dS are in shared memory, and have been used.
  static constexpr int staged = 1, used = 2, all = config.warpgroups * hopper::warpgroup_threads;

  // Steps after which dK and dV are promoted.
  static constexpr int steps_of_span = gpu::span_of_sums<Element> / config.queries;

  RAPT_DEVICE static int row() { return Target::wave() % 4 * 16 + Target::lane() / 4; }
  RAPT_DEVICE static int column() { return Target::lane() % 4 * 2; }
  RAPT_DEVICE int first_key(const WorkTile& work) const {
    return work.key_tile * config.keys + group_ * Mma::own_keys;
  }

  RAPT_DEVICE Unmasked unmasked_queries(const WorkTile& work) const {
    const Index key = first_key(work);
    const semantics::Range first = queries_of_key(work, key),
                           last = queries_of_key(work, key + Mma::own_keys - 1);
    return {uniform(static_cast<int>(semantics::larger(first.begin, last.begin))),
            uniform(static_cast<int>(semantics::smaller(first.end, last.end)))};
  }

  // The keys that the thread's first row sees, or the one 8 further down, as columns of S.
  struct Seen {
    int begin, end;
  };
  RAPT_DEVICE Seen seen_by(const WorkTile& work, int query, int half) const {
    const Index at = query + row() + 8 * half;
    if (at >= work.sequence.q_len) return {0, 0};
    const semantics::Range keys = semantics::key_range(
        p_.common.call.window, at + work.sequence.offset, work.sequence.kv_len);
    return {static_cast<int>(keys.begin) - first_key(work),
            static_cast<int>(keys.end) - first_key(work)};
  }

  // From S to P in place.
  RAPT_DEVICE void make_weights(const float* exponents, typename Mma::Pairs& scores) const {
    const float base[2] = {exponents[row()], exponents[row() + 8]};
    for_each(scores, [&](int, int i, float& score) {
      score = Target::exp2(score * p_.scale - base[i / 2]);
    });
  }

  // Where scores are more than dot products: P without what is dropped, packed for dV, and in place
  // P times the slope of the soft cap, as dS wants it. 1 / (1 − p) is left to the sums.
  RAPT_DEVICE void make_scored_weights(const WorkTile& work, int head, int query,
                                       const float* exponents, Kept kept,
                                       typename Mma::Pairs& scores,
                                       typename Mma::Packed& weights) const {
    const semantics::Call& call = p_.common.call;
    RAPT_UNROLL
    for (int half = 0; half < 2; ++half) {
      const Seen seen = seen_by(work, query, half);
      const Index at = query + row() + 8 * half;
      const float base = exponents[row() + 8 * half];
      RAPT_UNROLL
      for (int j = 0; j < Mma::own_keys / 8; ++j) {
        float of_values[2];
        RAPT_UNROLL
        for (int i = 0; i < 2; ++i) {
          const int key = 8 * j + column() + i;
          float& score = scores[j][2 * half + i];
          float weight = 0;
          if (key >= seen.begin && key < seen.end)
            weight = Target::exp2(gpu::scored_exponent<Target, Element>(
                                      call, work.sequence.index, head, at,
                                      at + work.sequence.offset, first_key(work) + key, score) -
                                  base);
          of_values[i] = is_kept(kept, j, 2 * half + i) ? weight : 0;
          score = weight * semantics::cap_slope(call.softcap, call.scale * score);
        }
        weights[j][half] = ptx::pack_two<Element>(of_values[0], of_values[1]);
      }
    }
  }

  RAPT_DEVICE Kept draw(const WorkTile& work, int head, int query) const {
    Kept kept = ~0u;
    const semantics::Dropout& dropout = p_.common.call.dropout;
    if (!dropout.seed) return kept;
    const semantics::DropoutStream stream =
        semantics::dropout_stream(dropout, work.sequence.index, head);
    const Index at = query + row();
    semantics::DropoutBytes bytes[2];
    RAPT_UNROLL
    for (int j = 0; j < Mma::own_keys / 8; ++j) {
      const Index key = first_key(work) + 8 * j + column();
      const int place = semantics::place_in_draw(key);
      RAPT_UNROLL
      for (int i = 0; i < 2; ++i) {
        if (j == 0 || place == 0) bytes[i] = semantics::draw_dropout(stream, at, key + i);
        RAPT_UNROLL
        for (int half = 0; half < 2; ++half) {
          if (!semantics::keeps(stream, bytes[i], semantics::place_in_draw(at + 8 * half), place))
            kept &= ~(1u << (4 * j + 2 * half + i));
        }
      }
    }
    return kept;
  }
  RAPT_DEVICE static bool is_kept(Kept kept, int j, int i) {
    return (kept >> (4 * j + i) & 1) != 0;
  }
  // Gradients of weights that dropout drops become 0, and the others larger.
  RAPT_DEVICE void drop(Kept kept, typename Mma::Pairs& pairs) const {
    const semantics::Dropout& dropout = p_.common.call.dropout;
    if (!dropout.seed) return;
    const auto scale = semantics::kept_scale<float>(dropout);
    for_each(pairs,
             [&](int j, int i, float& pair) { pair = is_kept(kept, j, i) ? pair * scale : 0; });
  }

  RAPT_DEVICE void hide(const WorkTile& work, int query, typename Mma::Pairs& pairs) const {
    const Seen seen[2] = {seen_by(work, query, 0), seen_by(work, query, 1)};
    for_each(pairs, [&](int j, int i, float& pair) {
      const int key = 8 * j + column() + i % 2;
      if (key < seen[i / 2].begin || key >= seen[i / 2].end) pair = 0;
    });
  }

  // From dP to dS. Of pairs that are not visible it may be anything.
  RAPT_DEVICE static void make_gradients(const float* deltas, const typename Mma::Pairs& weights,
                                         typename Mma::Pairs& pairs) {
    const float delta[2] = {deltas[row()], deltas[row() + 8]};
    for_each(pairs,
             [&](int j, int i, float& pair) { pair = weights[j][i] * (pair - delta[i / 2]); });
  }

  template <class Function>
  RAPT_DEVICE static void for_each_panel(Function function) {
    RAPT_UNROLL
    for (int panel = 0; panel < panels; ++panel) function(panel);
  }
};

}  // namespace rapt::cuda::flash_wgmma_backward
