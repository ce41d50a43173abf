// A warpgroup that computes: 64 rows of queries, step after step.
//
//   S = Q Kᵀ                tensor cores, of this step
//   O = O + P V             tensor cores, of the step before
//   P = softmax of S        the first of a thread's two rows while P V still runs
//   O = O · factor          if references moved
//
// Steps run on from one work into the next: while the last P V of a work runs, the first scores of
// the next are computed already.
#pragma once

#include "src/cuda/flash_wgmma/epilogue.cuh"
#include "src/cuda/flash_wgmma/scoring.cuh"
#include "src/cuda/ptx/ldmatrix.cuh"
#include "src/cuda/ptx/packed.cuh"
#include "src/cuda/ptx/wgmma.cuh"

namespace rapt::cuda::flash_wgmma {

template <TileConfig config, class Element>
class Consumer {
 public:
  RAPT_DEVICE Consumer(const Parameters& p, Shared<config>& shared, int group)
      : p_(p), shared_(shared), group_(group) {}

  RAPT_DEVICE void run() {
    if (!begin_work()) return;
    if (staged<config>) note_output();  // there is none yet, but queries may be in registers now
    if (config.turns && group_ == config.warpgroups - 1) pass_turn();

    Scores scores;
    Weights weights;
    Output out = {};
    OutputAside<config.v_dim / 8> output_aside;
    SumsAside sums_aside;
    float factor[2], moved_by[2];
    Rows rows = empty_rows();
    pass_over();
    wait_for_keys();
    issue_scores(scores);
    ptx::wait<0>();
    ptx::changed(scores);
    free_keys();
    begin_softmax(scores, rows, moved_by);
    finish_softmax(scores, rows);
    pack(scores, weights);
    free_values_passed_over();

    for (;;) {
      // S is of this step, P and then O of the one before, which may have ended its work.
      bool ended = false;
      ++step_;
      const int value_step = step_ - 1;
      if (tile_ != pause_) {
        --tile_;
      } else if (tile_ != first_tile_) {
        if (tile_ % tiles_of_output_span == 0 && tile_ != started_at(assignment(0)))
          output_aside.take(out, !has_output_aside(assignment(0), tile_));
        sums_aside.take(rows, !has_sums_aside());
        note_sums_aside(true);
        --tile_;
        set_pause();
      } else {
        ended = true;
        float sums[2];
        sum_rows(rows, sums);
        const bool any_aside = has_sums_aside();
        const bool more = begin_work();
        if (any_aside) {
          sums_aside.join(rows);
          sum_rows(rows, sums);
          note_sums_aside(false);
        }
        finish_rows(p_, assignment(1), group_, row(), rows.reference, sums, factor);
        if (!more) break;
        rows = empty_rows();
        pass_over();
      }
      wait_for_keys();
      if (config.turns) take_turn();
      issue_scores(scores);
      wait_for_values(value_step);
      issue_output(weights, value_step, out);
      if (config.turns) pass_turn();
      ptx::wait<1>();
      ptx::changed(scores);
      free_keys();
      const bool moved = begin_softmax(scores, rows, moved_by);
      ptx::changed(scores);
      // Both ways begin with the same wait, but it must not come before the branch: ptxas lets
      // waits climb to the top of their block, and softmax would come after P V.
      if (ended) {
        wait_for_output(value_step, out);
        free_values_passed_over();
        if (has_output_aside(assignment(1))) output_aside.join(out);
        store_output(out, factor);
        clear(out);
      } else {
        wait_for_output(value_step, out);
        if (moved) {
          rescale(out, moved_by);
          if (has_output_aside(assignment(0), tile_)) output_aside.scale(moved_by);
        }
      }
      finish_softmax(scores, rows);
      pack(scores, weights);
    }
    wait_for_values(step_ - 1);
    issue_output(weights, step_ - 1, out);
    wait_for_output(step_ - 1, out);
    if (has_output_aside(assignment(1))) output_aside.join(out);
    store_output(out, factor);
  }

 private:
  using Scores = float[config.keys / 8][4];       // S (64, keys)
  using Weights = uint32_t[config.keys / 16][4];  // P (64, keys)
  using Output = float[config.v_dim / 8][4];      // O (64, v_dim)

  // The thread's first row in the warpgroup; the other one is 8 further down.
  RAPT_DEVICE static int row() { return Target::wave() % 4 * 16 + Target::lane() / 4; }

  // Named barrier 0 is that of the whole block.
  RAPT_DEVICE void take_turn() const { ptx::named_wait(1 + group_, 2 * warpgroup_threads); }
  RAPT_DEVICE void pass_turn() const {
    const int next = group_ + 1 < config.warpgroups ? group_ + 1 : 0;
    ptx::named_arrive(1 + next, 2 * warpgroup_threads);
  }

  // Of the work last begun, or of one `before` it.
  RAPT_DEVICE const Assignment& assignment(int before) const {
    return shared_.assignments[turn<assignment_slots>(work_ - before)];
  }

  // Waits for the next work and its queries; false if there is none.
  RAPT_DEVICE bool begin_work() {
    ++work_;
    const Slot<config.query_buffers> slot(work_);
    shared_.queries_full[slot.at].wait(slot.parity);
    // Everything is asked for before anything is waited for.
    const Assignment& next = assignment(0);
    const int left = next.left, tile = next.tile, first_tile = next.first_tile;
    const auto of_group = next.of[group_];
    if constexpr (config.held) hold_queries();
    passed_over_ = passes_over<config> ? uniform(of_group.passed_over) : 0;
    tile_ = uniform(tile) - passed_over_;
    first_tile_ = uniform(first_tile);
    set_pause();
    whole_begin_ = uniform(of_group.whole_begin);
    whole_end_ = uniform(of_group.whole_end);
    if (uniform(left) == 0) return false;
    if constexpr (config.scoring) {
      RAPT_UNROLL
      for (int half = 0; half < 2; ++half)
        exists_[half] = row_place(p_, next, group_, row() + 8 * half).exists;
    }
    return true;
  }

  // Of the work before the one last begun.
  RAPT_DEVICE void store_output(const Output& out, const float (&factor)[2]) {
    const Assignment& work = assignment(1);
    if (staged<config>) shared_.output_gone[group_].wait((work_ - 1) & 1);
    if (staged<config> && output_is_copied(p_, work, group_)) {
      stage_output<Element>(own_rows(staging(shared_, group_, work_)), out, factor);
      ptx::fence_stores();
    } else {
      flash_wgmma::store_output<Element>(p_, work, group_, row(), out, factor);
    }
    if (staged<config>) note_output();
  }
  // The warp's output is staged, or stored: its room can be emptied and freed.
  RAPT_DEVICE void note_output() const {
    __syncwarp();
    shared_.output_there[group_].arrive_if(Target::lane() == 0);
  }

  // The warp's part of a warpgroup's tile.
  RAPT_DEVICE static unsigned char* own_rows(unsigned char* tile) {
    return tile + Target::wave() % 4 * 16 * panel_row_bytes;
  }
  RAPT_DEVICE void hold_queries() {
    const unsigned char* queries =
        own_rows(shared_.queries[turn<config.query_buffers>(work_)][group_]);
    RAPT_UNROLL
    for (int column = 0; column < config.qk_dim; column += 16)
      ptx::load_matrices(fragment_address(queries, column), held_[column / 16]);
  }

  // A work's first tile of keys may be one that other warpgroups see, but not this one. Its values
  // come after those of the step before.
  RAPT_DEVICE void pass_over() {
    if (passed_over_ != 0) {
      wait_for_keys();
      if (config.turns) {
        take_turn();
        pass_turn();
      }
      shared_.keys_free[turn<config.stages>(step_)].arrive_if(Target::lane() == 0);
    }
    step_ += passed_over_;
  }
  RAPT_DEVICE void free_values_passed_over() const {
    if (passed_over_ == 0) return;
    wait_for_values(step_ - 1);
    free_values(step_ - 1);
  }

  // A number that is the same in all lanes, in a way that lets the compiler know.
  RAPT_DEVICE static int uniform(int number) {
    return static_cast<int>(__reduce_or_sync(Target::all_lanes, static_cast<unsigned>(number)));
  }

  RAPT_DEVICE void wait_for_keys() const {
    const Slot<config.stages> slot(step_);
    shared_.keys_full[slot.at].wait(slot.parity);
  }
  RAPT_DEVICE void wait_for_values(int step) const {
    const Slot<config.stages> slot(step);
    shared_.values_full[slot.at].wait(slot.parity);
  }

  // Of a column in a tile, in bytes.
  RAPT_DEVICE static int offset(int column, int rows) {
    return column / panel_columns * rows * panel_row_bytes + column % panel_columns * 2;
  }

  RAPT_DEVICE void issue_scores(Scores& scores) const {
    using Product = ptx::Product<Element, config.keys>;
    const auto keys = ptx::Matrix::by_rows(shared_.keys[turn<config.stages>(step_)]);
    ptx::fence();
    if constexpr (config.held) {
      RAPT_UNROLL
      for (int column = 0; column < config.qk_dim; column += 16)
        Product::multiply(scores, held_[column / 16], keys.moved(offset(column, config.keys)),
                          column > 0);
    } else {
      const auto queries =
          ptx::Matrix::by_rows(shared_.queries[turn<config.query_buffers>(work_)][group_]);
      RAPT_UNROLL
      for (int column = 0; column < config.qk_dim; column += 16)
        Product::multiply(scores, queries.moved(offset(column, warpgroup_rows)),
                          keys.moved(offset(column, config.keys)), column > 0);
    }
    ptx::commit();
  }

  RAPT_DEVICE void issue_output(const Weights& weights, int step, Output& out) const {
    const auto values = ptx::Matrix::by_columns(shared_.values[turn<config.stages>(step)],
                                                config.keys * panel_row_bytes);
    ptx::fence();
    RAPT_UNROLL
    for (int i = 0; i < config.keys / 16; ++i) {
      ptx::Product<Element, config.v_dim>::multiply_columns(
          out, weights[i], values.moved(i * 16 * panel_row_bytes), true);
    }
    ptx::commit();
  }

  RAPT_DEVICE void free_keys() const {
    const bool first = Target::lane() == 0;
    shared_.keys_free[turn<config.stages>(step_)].arrive_if(first);
    if (!staged_in_queries<config>)
      shared_.queries_free[turn<config.query_buffers>(work_)].arrive_if(first &&
                                                                        tile_ == first_tile_);
  }

  RAPT_DEVICE void free_values(int step) const {
    shared_.values_free[turn<config.stages>(step)].arrive_if(Target::lane() == 0);
  }

  RAPT_DEVICE void wait_for_output(int step, Output& out) const {
    ptx::wait<0>();
    ptx::changed(out);
    free_values(step);
  }

  // Dot products become weights, those of the second row in finish_softmax where that can be: after
  // the wait for P V, beside packing. Whether references moved, and by what.
  RAPT_DEVICE bool begin_softmax(Scores& scores, Rows& rows, float (&moved_by)[2]) {
    if constexpr (config.scoring) {
      float share = 0, sizes[2] = {};
      if (p_.call.softcap > 0) {
        hide(scores, 0);  // how scores are capped is not for those to decide that nobody sees
        RAPT_UNROLL
        for (int row = 0; row < 2; ++row) sizes[row] = largest_size(scores, row);
        share = share_of_cap(p_, exists_, sizes);
      }
      const bool by_polynomial = p_.only_capped && all_fit<3>(share);
      if (!by_polynomial) {
        scale_scores(p_, share, scores);
        if (p_.bias_loaded) add_biases(scores);
        score_pairs<Element>(p_, assignment(0), group_, row(), first_key(), scores);
      }
      hide(scores, gpu::minus_infinity);
      if (by_polynomial) {
        const Capped<3> capped(p_);
        bool moved = false;
        RAPT_UNROLL
        for (int row = 0; row < 2; ++row) {
          moved |= move_reference<Element>(scores, sizes[row], capped, row, rows, moved_by);
          weigh(scores, capped, row, rows);
        }
        return moved;
      }
      const bool moved = move_and_weigh(scores, Scaled{1}, rows, moved_by);
      weigh(scores, Scaled{1}, 1, rows);
      return moved;
    } else {
      hide(scores, gpu::minus_infinity);
      return move_and_weigh(scores, Scaled{p_.scale}, rows, moved_by);
    }
  }
  RAPT_DEVICE void finish_softmax(Scores& scores, Rows& rows) const {
    if constexpr (!config.scoring) weigh(scores, Scaled{p_.scale}, 1, rows);
  }
  RAPT_DEVICE void add_biases(Scores& scores) {
    shared_.biases_full[group_].wait(biases_ & 1);
    ++biases_;
    add_loaded_bias<Element>(shared_.biases[group_], row(), scores);
    __syncwarp();
    if (Target::lane() == 0) shared_.biases_free[group_].arrive();
  }

  // References move, and the first row is weighed. Three warpgroups keep all units busy, and fewer
  // instructions are less time. With two it is what they wait for that counts, branches too, and
  // each work begins with references that move.
  RAPT_DEVICE static bool move_and_weigh(Scores& scores, const Scaled& scaled, Rows& rows,
                                         float (&moved_by)[2]) {
    bool moved;
    if constexpr (config.warpgroups == 3) {
      moved = move_reference<Element>(scores, largest(scores, 0), scaled, 0, rows, moved_by);
      weigh(scores, scaled, 0, rows);
      moved |= move_reference<Element>(scores, largest(scores, 1), scaled, 1, rows, moved_by);
    } else {
      moved = move_reference<Element>(scores, scaled, 0, rows, moved_by);
      weigh(scores, scaled, 0, rows);
      moved |= move_reference<Element>(scores, scaled, 1, rows, moved_by);
      moved = __any_sync(Target::all_lanes, moved);
    }
    return moved;
  }

  // Of the thread's first column.
  RAPT_DEVICE int first_key() const { return tile_ * config.keys + Target::lane() % 4 * 2; }

  // Scores of pairs outside the window become `hidden`.
  RAPT_DEVICE void hide(Scores& scores, float hidden) const {
    if (tile_ >= whole_begin_ && tile_ < whole_end_) return;
    const Assignment& work = assignment(0);
    RAPT_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int query =
          group_ * p_.schedule.queries + p_.schedule.packed.quotient(row() + 8 * half);
      const int begin = work.sees_from + query - first_key();
      const int end = min(work.sees_to + query, work.kv_len) - first_key();
      RAPT_UNROLL
      for (int i = 0; i < 2; ++i) {
        // A bit for each of the thread's columns, 8 apart.
        const uint32_t visible = bits_below(end - i) & ~bits_below(begin - i);
        RAPT_UNROLL
        for (int j = 0; j < config.keys / 8; ++j)
          if (!(visible >> j & 1)) scores[j][2 * half + i] = hidden;
      }
    }
  }
  RAPT_DEVICE static uint32_t bits_below(int column) {
    const int count = max(column + 7, 0) >> 3;
    return ~__funnelshift_lc(0, 0xffffffff, count);  // at most 32 of them
  }

  // Spans are counted by keys, not by steps: bits do not depend on what else the block has done.
  RAPT_DEVICE void set_pause() {
    const int end = tile_ / tiles_of_span * tiles_of_span;
    pause_ = end > first_tile_ ? end : first_tile_;
  }
  // Whether the warp has set sums of the work aside: noted in shared memory, not in a register.
  RAPT_DEVICE bool has_sums_aside() const {
    return uniform(shared_.sums_aside[Target::wave()]) != 0;
  }
  RAPT_DEVICE void note_sums_aside(bool any) {
    shared_.sums_aside[Target::wave()] = any;  // the same from all lanes
    __syncwarp();
  }
  RAPT_DEVICE int started_at(const Assignment& work) const {
    return work.tile - (passes_over<config> ? work.of[group_].passed_over : 0);
  }
  // Whether a span of output ended in a work's tiles before `tile`, its first step's left out.
  RAPT_DEVICE bool has_output_aside(const Assignment& work, int tile) const {
    return (started_at(work) - 1) / tiles_of_output_span > tile / tiles_of_output_span;
  }
  RAPT_DEVICE bool has_output_aside(const Assignment& work) const {
    return has_output_aside(work, work.first_tile);
  }

  RAPT_DEVICE static void clear(Output& out) {
    RAPT_UNROLL
    for (int j = 0; j < config.v_dim / 8; ++j) {
      RAPT_UNROLL
      for (int i = 0; i < 4; ++i) out[j][i] = 0;
    }
  }
  RAPT_DEVICE static void rescale(Output& out, const float (&factor)[2]) {
    RAPT_UNROLL
    for (int j = 0; j < config.v_dim / 8; ++j) {
      RAPT_UNROLL
      for (int i = 0; i < 4; ++i) out[j][i] *= factor[i / 2];
    }
  }

  RAPT_DEVICE static void pack(const Scores& scores, Weights& weights) {
    RAPT_UNROLL
    for (int j = 0; j < config.keys / 8; ++j) {
      RAPT_UNROLL
      for (int half = 0; half < 2; ++half) {
        weights[j / 2][j % 2 * 2 + half] =
            ptx::packed<Element>(scores[j][2 * half], scores[j][2 * half + 1]);
      }
    }
  }

  const Parameters& p_;
  Shared<config>& shared_;
  int group_;
  uint32_t held_[config.held ? config.qk_dim / 16 : 1][4];  // Q (64, qk_dim)
  int work_ = -1, step_ = 0;             // counted from 0 on, which tells their buffers
  int tile_ = 0, first_tile_ = 0;        // of keys: where the work is, and where it ends
  int pause_ = 0;                        // the next tile that ends a span, or the work
  int passed_over_ = 0;                  // tiles, 0 or 1, before the work's first step
  int biases_ = 0;                       // tiles of them, used so far
  int whole_begin_ = 0, whole_end_ = 0;  // tiles that all of the warpgroup's rows see whole
  bool exists_[2] = {};                  // whether the thread's rows are those of a query
};

}  // namespace rapt::cuda::flash_wgmma
