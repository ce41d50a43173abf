// The consumer: a warpgroup that computes, 64 of the block's keys, step after step of 64 or 128
// queries. For up to 128 dims; wide_consumer.cuh has the others.
//
//   tensor cores   │ dP 0        │      dV 0 │ dQ 0 │ dK 0 │ S 1 │ dP 1        │      dV 1 │ dQ 1 …
//   other units    │ S 0 ▶ P 0   │ dS 0, to shared memory ┊ dQ 0 │ S 1 ▶ P 1   │ dS 1 …
//                                                         ┊ to the storer
//                                     both warpgroups' dS 0 are there
#pragma once

#include "src/cuda/flash_wgmma_backward/consumer_base.cuh"
#include "src/cuda/flash_wgmma_backward/store_rows.cuh"
#include "src/cuda/flash_wgmma_backward/warpgroup_mma.cuh"
#include "src/cuda/hopper/promoted_matrix.cuh"
#include "src/gpu/long_sums.hpp"
#include "src/gpu/softmax.hpp"

namespace rapt::cuda::flash_wgmma_backward {

template <TileConfig config, class Element>
class Consumer : public ConsumerBase<config, Consumer<config, Element>> {
 public:
  using Mma = WarpgroupMma<config, Element>;
  using ConsumerBase<config, Consumer>::ConsumerBase;

  RAPT_DEVICE void compute(const WorkTile& work, int loaded, typename Mma::Sums& dk,
                           typename Mma::Sums& dv) {
    const Unmasked unmasked = unmasked_queries(work);
    const int heads = static_cast<int>(p_.common.call.heads / p_.common.call.kv_heads);
    int head = 0, at = 0;  // of the group, and of its walk
    hopper::PromotedMatrix<config.dim / 8> promoted_dk, promoted_dv;
    typename Mma::Pairs scores;
    shared_.query_ring.wait_full(step_);
    issue_scores(scores);
    shared_.value_ring.wait_full(loaded);
    ptx::wgmma_wait<0>();
    ptx::fence_operand(scores);
    for (int left = steps_of(work); left > 0; --left) {
      const int buffer = hopper::ring_index<config.query_stages>(step_);
      const int query = work.walk.tile(at) * config.queries;
      const int this_head = work.kv_head * heads + head;
      if (++at == work.walk.count) {
        at = 0;
        ++head;
      }
      typename Mma::Pairs pairs;  // dP
      typename Mma::Packed weights, gradients;
      Kept kept;
      if constexpr (config.score_mod) {  // whose registers are too many for products in flight
        draw(work, this_head, query, kept);
        make_scored_weights(work, this_head, query, shared_.exponents[buffer], kept, scores,
                            weights);
      }
      shared_.dout_ring.wait_full(step_);
      if constexpr (config.score_mod) {  // at once: nor is there room for weights beside dP
        Mma::issue_sums(weights, shared_.douts[buffer], dv);
        ptx::wgmma_wait<0>();
        ptx::fence_operand(dv);
      }
      Mma::issue_pairs(shared_.values, group_, shared_.douts[buffer], pairs);
      if constexpr (!config.score_mod) {
        make_weights(shared_.exponents[buffer], scores);
        if (!is_unmasked(unmasked, query)) hide(work, query, scores);
      }
      ptx::wgmma_wait<0>();
      ptx::fence_operand(pairs);
      if constexpr (config.score_mod) drop(kept, pairs);
      make_gradients(shared_.deltas[buffer], scores, pairs);
      if (!is_unmasked(unmasked, query)) hide(work, query, pairs);
      if constexpr (!config.score_mod) Mma::pack(scores, weights);
      if constexpr (!config.score_mod) Mma::issue_sums(weights, shared_.douts[buffer], dv);
      Mma::pack(pairs, gradients);
      if (step_ > 0) ptx::named_barrier_sync(used_by(1 - group_), both);
      Mma::stage(gradients, shared_.staged[0], group_);
      ptx::fence_proxy_async();
      ptx::named_barrier_sync(staged, both);
      typename Mma::QueryGradients dq;
      Mma::issue_dq(shared_.staged[0], shared_.keys, group_, dq);
      Mma::issue_sums(gradients, shared_.queries[buffer], dk);
      ++step_;
      ptx::wgmma_wait<1>();
      ptx::fence_operand(dv);
      ptx::fence_operand(dq);
      ptx::named_barrier_arrive(used_by(group_), both);
      shared_.dout_ring.free_of(step_ - 1).arrive_if(Target::lane() == 0);
      hand_over(dq, step_ - 1);
      // After the last step too, of what happens to lie there: a branch here would make the
      // compiler wait for products in flight.
      if (left > 1) shared_.query_ring.wait_full(step_);
      issue_scores(scores);
      ptx::wgmma_wait<0>();
      ptx::fence_operand(dk);
      ptx::fence_operand(scores);
      shared_.query_ring.free_of(step_ - 1).arrive_if(Target::lane() == 0);
      if (left > 1 && (left - 1) % steps_of_span == 0) {  // counted from the last one
        const bool first_time = left - 1 + steps_of_span >= steps_of(work);
        promoted_dk.take(dk, first_time);
        promoted_dv.take(dv, first_time);
      }
    }
    if (steps_of(work) > steps_of_span) {
      promoted_dk.join(dk);
      promoted_dv.join(dv);
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
    const auto store_half = [&]<int half>() {
      const Index key = first_key(work) + 8 * half;
      const semantics::Place place = semantics::unpaged_key_place(call, work.sequence, key);
      const bool exists = key < stored, in_use = key < work.sequence.kv_len;
      store_row<Element, half>(g.dk, g.dk_is_f32,
                               semantics::row_offset(g.dk_stride, place, work.kv_head), call.qk_dim,
                               exists, in_use, call.scale, dk);
      store_row<Element, half>(g.dv, g.dv_is_f32,
                               semantics::row_offset(g.dv_stride, place, work.kv_head), call.v_dim,
                               exists, in_use, kept_scale, dv);
    };
    store_half.template operator()<0>();
    store_half.template operator()<1>();
  }

 private:
  using Base = ConsumerBase<config, Consumer>;
  using Base::p_, Base::shared_, Base::group_, Base::step_;
  using Base::uniform, Base::steps_of, Base::is_unmasked, Base::hand_over, Base::queries_of_key,
      Base::for_each;
  using typename Base::Unmasked;

  using Kept =
      uint32_t[config.queries / 64];  // which of the thread's pairs dropout keeps, a bit each

  static_assert(config.query_stages == config.dout_stages);  // one index for both

  // Named barriers of both warpgroups: dS is in shared memory, and a warpgroup has used it.
  static constexpr int staged = 1, both = config.warpgroups * hopper::warpgroup_threads;
  RAPT_DEVICE static int used_by(int group) { return 2 + group; }

  // Steps after which dK and dV are promoted.
  static constexpr int steps_of_span = gpu::span_of_sums<Element> / config.queries;

  RAPT_DEVICE static int row() { return Target::wave() % 4 * 16 + Target::lane() / 4; }
  RAPT_DEVICE int first_key(const WorkTile& work) const {
    return work.key_tile * config.keys + group_ * 64 + row();
  }

  // The queries that see the thread's first key, or the one 8 further down.
  RAPT_DEVICE semantics::Range queries_of(const WorkTile& work, int half) const {
    return queries_of_key(work, first_key(work) + 8 * half);
  }
  RAPT_DEVICE Unmasked unmasked_queries(const WorkTile& work) const {
    const semantics::Range first = queries_of(work, 0), second = queries_of(work, 1);
    const auto begin = static_cast<int>(semantics::larger(first.begin, second.begin));
    const auto end = static_cast<int>(semantics::smaller(first.end, second.end));
    return {__reduce_max_sync(Target::all_lanes, begin), __reduce_min_sync(Target::all_lanes, end)};
  }

  RAPT_DEVICE void issue_scores(typename Mma::Pairs& scores) const {
    Mma::issue_pairs(shared_.keys, group_,
                     shared_.queries[hopper::ring_index<config.query_stages>(step_)], scores);
  }

  // From Sᵀ to Pᵀ in place.
  RAPT_DEVICE void make_weights(const float* exponents, typename Mma::Pairs& scores) const {
    const int column = Target::lane() % 4 * 2;
    RAPT_UNROLL
    for (int j = 0; j < config.queries / 8; ++j) {
      const float2 base = *reinterpret_cast<const float2*>(exponents + 8 * j + column);
      RAPT_UNROLL
      for (int i = 0; i < 4; ++i)
        scores[j][i] = Target::exp2(scores[j][i] * p_.scale - (i % 2 == 0 ? base.x : base.y));
    }
  }

  // Where scores are more than dot products: Pᵀ without what is dropped, packed for dV, and in
  // place Pᵀ times the slope of the soft cap, as dS wants it. 1 / (1 − p) is left to the sums.
  RAPT_DEVICE void make_scored_weights(const WorkTile& work, int head, int query,
                                       const float* exponents, const Kept& kept,
                                       typename Mma::Pairs& scores,
                                       typename Mma::Packed& weights) const {
    const int column = Target::lane() % 4 * 2;
    RAPT_UNROLL
    for (int half = 0; half < 2; ++half) {
      const semantics::Range seen = queries_of(work, half);
      const int begin = static_cast<int>(seen.begin) - query,
                end = static_cast<int>(seen.end) - query;
      RAPT_UNROLL
      for (int j = 0; j < config.queries / 8; ++j) {
        float of_values[2];
        RAPT_UNROLL
        for (int i = 0; i < 2; ++i) {
          const int at = 8 * j + column + i;
          float& score = scores[j][2 * half + i];
          float weight = 0;
          if (at >= begin && at < end)
            weight = scored_weight(work, head, query + at, half, exponents[at], score);
          of_values[i] = is_kept(kept, j, 2 * half + i) ? weight : 0;
          score =
              weight * semantics::cap_slope(p_.common.call.softcap, p_.common.call.scale * score);
        }
        weights[j / 2][j % 2 * 2 + half] = ptx::pack_two<Element>(of_values[0], of_values[1]);
      }
    }
  }

  RAPT_DEVICE void draw(const WorkTile& work, int head, int query, Kept& kept) const {
    RAPT_UNROLL
    for (uint32_t& bits : kept) bits = ~0u;
    const semantics::Dropout& dropout = p_.common.call.dropout;
    if (!dropout.seed) return;
    const semantics::DropoutStream stream =
        semantics::dropout_stream(dropout, work.sequence.index, head);
    const Index key = first_key(work);
    semantics::DropoutBytes bytes[2];
    RAPT_UNROLL
    for (int j = 0; j < config.queries / 8; ++j) {
      RAPT_UNROLL
      for (int i = 0; i < 2; ++i) {
        const Index column = query + 8 * j + Target::lane() % 4 * 2 + i;
        if (j % 4 == 0) bytes[i] = semantics::draw_dropout(stream, column, key);
        RAPT_UNROLL
        for (int half = 0; half < 2; ++half) {
          if (!semantics::keeps(stream, bytes[i], j % 4, semantics::place_in_draw(key + 8 * half)))
            kept[j / 8] &= ~(1u << (j % 8 * 4 + 2 * half + i));
        }
      }
    }
  }
  RAPT_DEVICE static bool is_kept(const Kept& kept, int j, int i) {
    return (kept[j / 8] >> (j % 8 * 4 + i) & 1) != 0;
  }
  // Gradients of weights that dropout drops become 0, and the others larger.
  RAPT_DEVICE void drop(const Kept& kept, typename Mma::Pairs& pairs) const {
    const semantics::Dropout& dropout = p_.common.call.dropout;
    if (!dropout.seed) return;
    const auto scale = semantics::kept_scale<float>(dropout);
    for_each(pairs,
             [&](int j, int i, float& pair) { pair = is_kept(kept, j, i) ? pair * scale : 0; });
  }

  RAPT_DEVICE float scored_weight(const WorkTile& work, int head, int query, int half, float base,
                                  float dot) const {
    const Index key = first_key(work) + 8 * half;
    return Target::exp2(
        gpu::scored_exponent<Target, Element>(p_.common.call, work.sequence.index, head, query,
                                              query + work.sequence.offset, key, dot) -
        base);
  }

  RAPT_DEVICE void hide(const WorkTile& work, int query, typename Mma::Pairs& pairs) const {
    const int first = query + Target::lane() % 4 * 2;
    RAPT_UNROLL
    for (int half = 0; half < 2; ++half) {
      const semantics::Range seen = queries_of(work, half);
      const int begin = static_cast<int>(seen.begin) - first,
                end = static_cast<int>(seen.end) - first;
      RAPT_UNROLL
      for (int j = 0; j < config.queries / 8; ++j) {
        RAPT_UNROLL
        for (int i = 0; i < 2; ++i) {
          const int at = 8 * j + i;
          if (at < begin || at >= end) pairs[j][2 * half + i] = 0;
        }
      }
    }
  }

  // From dPᵀ to dSᵀ. Of pairs that are not visible it may be anything.
  RAPT_DEVICE static void make_gradients(const float* deltas, const typename Mma::Pairs& weights,
                                         typename Mma::Pairs& pairs) {
    const int column = Target::lane() % 4 * 2;
    RAPT_UNROLL
    for (int j = 0; j < config.queries / 8; ++j) {
      const float2 delta = *reinterpret_cast<const float2*>(deltas + 8 * j + column);
      RAPT_UNROLL
      for (int i = 0; i < 4; ++i)
        pairs[j][i] = weights[j][i] * (pairs[j][i] - (i % 2 == 0 ? delta.x : delta.y));
    }
  }
};

}  // namespace rapt::cuda::flash_wgmma_backward
