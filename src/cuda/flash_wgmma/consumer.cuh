// The consumer: a warpgroup that computes, 64 rows of queries, step after step.
//
//   S = Q Kᵀ                tensor cores, of this step
//   O = O + P V             tensor cores, of the step before
//   P = softmax of S        the first of a thread's two rows while P V still runs
//   O = O · factor          if row maxima moved
//
// Steps run on from one work tile into the next: while the last P V of a work tile runs, the first
// scores of the next are computed already.
//
//   tensor cores   │ S 1 │ P V 0 │             │ S 2 │ P V 1 │
//   softmax                  │ S 1 ▶ P 1, O · f │                │ S 2 ▶ P 2 …
#pragma once

#include "src/cuda/flash_wgmma/epilogue.cuh"
#include "src/cuda/flash_wgmma/tile_softmax.cuh"
#include "src/cuda/flash_wgmma/warpgroup_mma.cuh"
#include "src/cuda/hopper/pingpong.cuh"

namespace rapt::cuda::flash_wgmma {

template <TileConfig config, class Element>
class Consumer {
 public:
  RAPT_DEVICE Consumer(const Parameters& p, SharedStorage<config>& shared, int group)
      : p_(p), shared_(shared), softmax_(p, shared), at_{.group = group} {}

  RAPT_DEVICE void run() {
    if (!begin_work_tile()) return;
    if (staged<config>) note_output();  // there is none yet, but queries may be in registers now
    if (config.pingpong && at_.group == config.warpgroups - 1) pass_turn_on();

    Matrices now;
    hopper::PromotedMatrix<config.v_dim / 8> promoted_output;
    PromotedRowSums promoted_sums;
    first_step(now);
    for (;;) {
      // S is of this step, P and then O of the one before, which may have ended its work tile.
      const int value_step = at_.step++;
      bool ended = false;
      if (at_.tile != at_.span_end) {
        --at_.tile;
      } else if (at_.tile != at_.first_tile) {
        promote(now, promoted_output, promoted_sums);
        at_.begin_span();
      } else {
        ended = true;
        if (!end_work_tile(now, promoted_sums)) break;
        now.rows = empty_rows();
        skip_tile();
      }
      issue_products(now, value_step);
      const bool max_changed = softmax_.begin(at_, now.scores, now.rows, now.out_scale);
      ptx::fence_operand(now.scores);
      // Both ways begin with the same wait, but it must not come before the branch: ptxas lets
      // waits climb to the top of their block, and softmax would come after P V.
      if (ended) {
        wait_for_output(value_step, now.out);
        free_skipped_values();
        finish_output(now, promoted_output);
        Mma::clear(now.out);
      } else {
        wait_for_output(value_step, now.out);
        if (max_changed) rescale(now, promoted_output);
      }
      finish_weights(now);
    }
    last_output(now, promoted_output);
  }

 private:
  using Mma = WarpgroupMma<config, Element>;
  using Output = Mma::Output;
  using PromotedOut = hopper::PromotedMatrix<config.v_dim / 8>;

  // In registers.
  struct Matrices {
    Rows rows = empty_rows();
    float out_scale[2];  // that O is multiplied by, if row maxima moved
    float factor[2];     // that the output of the work tile that ended is multiplied by
    Output out = {};
    typename Mma::Weights weights;
    typename Mma::Scores scores;
  };

  // The first scores of all: no values are to be multiplied beside them.
  RAPT_DEVICE void first_step(Matrices& now) {
    skip_tile();
    wait_for_keys();
    issue_scores(now);
    ptx::wgmma_wait<0>();
    ptx::fence_operand(now.scores);
    free_keys();
    softmax_.begin(at_, now.scores, now.rows, now.out_scale);
    finish_weights(now);
    free_skipped_values();
  }

  // A span of keys has ended.
  RAPT_DEVICE void promote(Matrices& now, PromotedOut& promoted_output,
                           PromotedRowSums& promoted_sums) {
    if (at_.tile % tiles_of_output_span == 0 && at_.tile != at_.started_at(tile_info(0)))
      promoted_output.take(now.out, !at_.has_promoted_output(tile_info(0), at_.tile));
    promoted_sums.take(now.rows, !has_promoted_sums());
    note_promoted_sums(true);
  }

  // All scores of the work tile are there, and its rows can be summed; the next one begins. False
  // if there is none.
  RAPT_DEVICE bool end_work_tile(Matrices& now, PromotedRowSums& promoted_sums) {
    float sums[2];
    sum_rows(now.rows, sums);
    const bool any_promoted = has_promoted_sums();
    const bool more = begin_work_tile();
    if (any_promoted) {
      promoted_sums.join(now.rows);
      sum_rows(now.rows, sums);
      note_promoted_sums(false);
    }
    finish_rows(p_, tile_info(1), at_.group, at_.row(), now.rows.row_max, sums, now.factor);
    if constexpr (config.score_mod) {
      if (p_.call.dropout.seed) {
        RAPT_UNROLL
        for (int half = 0; half < 2; ++half)
          now.factor[half] *= semantics::kept_scale<float>(p_.call.dropout);
      }
    }
    return more;
  }

  // S of this step, and O of the step before; returns when S is there.
  RAPT_DEVICE void issue_products(Matrices& now, int value_step) {
    wait_for_keys();
    if (config.pingpong) hopper::wait_for_turn(at_.group);
    issue_scores(now);
    wait_for_values(value_step);
    issue_output(now, value_step);
    if (config.pingpong) pass_turn_on();
    ptx::wgmma_wait<1>();
    ptx::fence_operand(now.scores);
    free_keys();
  }

  RAPT_DEVICE void rescale(Matrices& now, PromotedOut& promoted_output) {
    Mma::rescale(now.out, now.out_scale);
    if (at_.has_promoted_output(tile_info(0), at_.tile)) promoted_output.scale(now.out_scale);
  }

  RAPT_DEVICE void finish_weights(Matrices& now) {
    softmax_.finish(now.scores, now.rows);
    Mma::pack(now.scores, now.weights);
  }

  // Of the work tile before the one last begun.
  RAPT_DEVICE void finish_output(Matrices& now, PromotedOut& promoted_output) {
    if (at_.has_promoted_output(tile_info(1))) promoted_output.join(now.out);
    store_output(now.out, now.factor);
  }

  // The last P V of all.
  RAPT_DEVICE void last_output(Matrices& now, PromotedOut& promoted_output) {
    wait_for_values(at_.step - 1);
    issue_output(now, at_.step - 1);
    wait_for_output(at_.step - 1, now.out);
    finish_output(now, promoted_output);
  }

  // Of the work tile last begun, or of one `before` it.
  RAPT_DEVICE const WorkTileInfo& tile_info(int before) const {
    return shared_.tile_infos[hopper::ring_index<tile_info_stages>(at_.work_tile - before)];
  }

  // Waits for the next work tile and its queries; false if there is none.
  RAPT_DEVICE bool begin_work_tile() {
    ++at_.work_tile;
    shared_.query_ring.wait_full(at_.work_tile);
    // Everything is asked for before anything is waited for.
    const WorkTileInfo& next = tile_info(0);
    const int left = next.left, tile = next.tile, first_tile = next.first_tile;
    const auto of_group = next.of[at_.group];
    if constexpr (config.q_in_registers) Mma::load_queries(query_tile(), query_registers_);
    at_.skipped = skips_tiles<config> ? at_.uniform(of_group.skipped) : 0;
    at_.tile = at_.uniform(tile) - at_.skipped;
    at_.first_tile = at_.uniform(first_tile);
    at_.set_span_end();
    at_.unmasked_begin = at_.uniform(of_group.unmasked_begin);
    at_.unmasked_end = at_.uniform(of_group.unmasked_end);
    if (at_.uniform(left) == 0) return false;
    softmax_.begin_work_tile(next, at_.group);
    return true;
  }

  RAPT_DEVICE void pass_turn_on() const {
    hopper::pass_turn_to(at_.group + 1 < config.warpgroups ? at_.group + 1 : 0);
  }

  // A work tile's first tile of keys may be one that other warpgroups see, but not this one. Its
  // values come after those of the step before.
  RAPT_DEVICE void skip_tile() {
    if (at_.skipped != 0) {
      wait_for_keys();
      if (config.pingpong) {
        hopper::wait_for_turn(at_.group);
        pass_turn_on();
      }
      shared_.key_ring.free_of(at_.step).arrive_if(Target::lane() == 0);
    }
    at_.step += at_.skipped;
  }
  RAPT_DEVICE void free_skipped_values() const {
    if (at_.skipped == 0) return;
    wait_for_values(at_.step - 1);
    free_values(at_.step - 1);
  }

  RAPT_DEVICE unsigned char* query_tile() const {
    return shared_.queries[hopper::ring_index<config.query_buffers>(at_.work_tile)][at_.group];
  }
  RAPT_DEVICE void wait_for_keys() const { shared_.key_ring.wait_full(at_.step); }
  RAPT_DEVICE void wait_for_values(int step) const { shared_.value_ring.wait_full(step); }
  RAPT_DEVICE void issue_scores(Matrices& now) const {
    Mma::issue_scores(query_registers_, query_tile(),
                      shared_.keys[hopper::ring_index<config.stages>(at_.step)], now.scores);
  }
  RAPT_DEVICE void issue_output(Matrices& now, int step) const {
    Mma::issue_output(now.weights, shared_.values[hopper::ring_index<config.stages>(step)],
                      now.out);
  }
  RAPT_DEVICE void wait_for_output(int step, Output& out) const {
    ptx::wgmma_wait<0>();
    ptx::fence_operand(out);
    free_values(step);
  }
  // And queries, when these were their last keys.
  RAPT_DEVICE void free_keys() const {
    const bool first = Target::lane() == 0;
    shared_.key_ring.free_of(at_.step).arrive_if(first);
    if (!staged_in_queries<config>)
      shared_.query_ring.free_of(at_.work_tile).arrive_if(first && at_.tile == at_.first_tile);
  }
  RAPT_DEVICE void free_values(int step) const {
    shared_.value_ring.free_of(step).arrive_if(Target::lane() == 0);
  }

  // Of the work tile before the one last begun.
  RAPT_DEVICE void store_output(const Output& out, const float (&factor)[2]) {
    const WorkTileInfo& work_tile = tile_info(1);
    if (staged<config>)
      shared_.output_buffers.wait_free(
          hopper::PipelineState<config.warpgroups>::of_buffer(at_.group, at_.work_tile));
    if (staged<config> && stores_by_tma(p_, work_tile, at_.group)) {
      stage_output<Element>(Mma::own_rows(staging(shared_, at_.group, at_.work_tile)), out, factor);
      ptx::fence_proxy_async();
    } else {
      flash_wgmma::store_output<Element>(p_, work_tile, at_.group, at_.row(), out, factor);
    }
    if (staged<config>) note_output();
  }
  // The warp's output is staged, or stored: its room can be emptied and freed.
  RAPT_DEVICE void note_output() const {
    __syncwarp();
    shared_.output_buffers.full[at_.group].arrive_if(Target::lane() == 0);
  }

  // Whether the warp has promoted sums of the work tile: noted in shared memory, not in a register.
  RAPT_DEVICE bool has_promoted_sums() const {
    return at_.uniform(shared_.promoted_sums[Target::wave()]) != 0;
  }
  RAPT_DEVICE void note_promoted_sums(bool any) {
    shared_.promoted_sums[Target::wave()] = any;  // the same from all lanes
    __syncwarp();
  }

  const Parameters& p_;
  SharedStorage<config>& shared_;
  TileSoftmax<config, Element> softmax_;
  Position<config> at_;
  typename Mma::QueryRegisters query_registers_;
};

}  // namespace rapt::cuda::flash_wgmma
