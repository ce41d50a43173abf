// A warpgroup that computes: 64 rows of queries, step after step.
//
//   S = Q Kᵀ                tensor cores, of this step
//   O = O + P V             tensor cores, of the step before
//   P = softmax of S        the first of a thread's two rows while P V still runs
//   O = O · factor          if row maxima moved
//
// Steps run on from one work tile into the next: while the last P V of a work tile runs, the first
// scores of the next are computed already.
#pragma once

#include "src/cuda/flash_wgmma/epilogue.cuh"
#include "src/cuda/flash_wgmma/score_mod.cuh"
#include "src/cuda/ptx/ldmatrix.cuh"
#include "src/cuda/ptx/pack.cuh"
#include "src/cuda/ptx/wgmma.cuh"

namespace rapt::cuda::flash_wgmma {

template <TileConfig config, class Element>
class Consumer {
 public:
  RAPT_DEVICE Consumer(const Parameters& p, SharedStorage<config>& shared, int group)
      : p_(p), shared_(shared), group_(group) {}

  RAPT_DEVICE void run() {
    if (!begin_work_tile()) return;
    if (staged<config>) note_output();  // there is none yet, but queries may be in registers now
    if (config.pingpong && group_ == config.warpgroups - 1) pingpong_arrive();

    Scores scores;
    Weights weights;
    Output out = {};
    PromotedOutput<config.v_dim / 8> promoted_output;
    PromotedRowSums promoted_sums;
    float factor[2], out_scale[2];
    Rows rows = empty_rows();
    skip_tile();
    wait_for_keys();
    issue_scores(scores);
    ptx::wgmma_wait<0>();
    ptx::fence_operand(scores);
    free_keys();
    begin_softmax(scores, rows, out_scale);
    finish_softmax(scores, rows);
    pack(scores, weights);
    free_skipped_values();

    for (;;) {
      // S is of this step, P and then O of the one before, which may have ended its work tile.
      bool ended = false;
      ++step_;
      const int value_step = step_ - 1;
      if (tile_ != span_end_) {
        --tile_;
      } else if (tile_ != first_tile_) {
        if (tile_ % tiles_of_output_span == 0 && tile_ != started_at(tile_info(0)))
          promoted_output.take(out, !has_promoted_output(tile_info(0), tile_));
        promoted_sums.take(rows, !has_promoted_sums());
        note_promoted_sums(true);
        --tile_;
        set_span_end();
      } else {
        ended = true;
        float sums[2];
        sum_rows(rows, sums);
        const bool any_promoted = has_promoted_sums();
        const bool more = begin_work_tile();
        if (any_promoted) {
          promoted_sums.join(rows);
          sum_rows(rows, sums);
          note_promoted_sums(false);
        }
        finish_rows(p_, tile_info(1), group_, row(), rows.row_max, sums, factor);
        if (!more) break;
        rows = empty_rows();
        skip_tile();
      }
      wait_for_keys();
      if (config.pingpong) pingpong_wait();
      issue_scores(scores);
      wait_for_values(value_step);
      issue_output(weights, value_step, out);
      if (config.pingpong) pingpong_arrive();
      ptx::wgmma_wait<1>();
      ptx::fence_operand(scores);
      free_keys();
      const bool max_changed = begin_softmax(scores, rows, out_scale);
      ptx::fence_operand(scores);
      // Both ways begin with the same wait, but it must not come before the branch: ptxas lets
      // waits climb to the top of their block, and softmax would come after P V.
      if (ended) {
        wait_for_output(value_step, out);
        free_skipped_values();
        if (has_promoted_output(tile_info(1))) promoted_output.join(out);
        store_output(out, factor);
        clear(out);
      } else {
        wait_for_output(value_step, out);
        if (max_changed) {
          rescale(out, out_scale);
          if (has_promoted_output(tile_info(0), tile_)) promoted_output.scale(out_scale);
        }
      }
      finish_softmax(scores, rows);
      pack(scores, weights);
    }
    wait_for_values(step_ - 1);
    issue_output(weights, step_ - 1, out);
    wait_for_output(step_ - 1, out);
    if (has_promoted_output(tile_info(1))) promoted_output.join(out);
    store_output(out, factor);
  }

 private:
  using Scores = float[config.keys / 8][4];       // S (64, keys)
  using Weights = uint32_t[config.keys / 16][4];  // P (64, keys)
  using Output = float[config.v_dim / 8][4];      // O (64, v_dim)

  // The thread's first row in the warpgroup; the other one is 8 further down.
  RAPT_DEVICE static int row() { return Target::wave() % 4 * 16 + Target::lane() / 4; }

  // Named barrier 0 is that of the whole block.
  RAPT_DEVICE void pingpong_wait() const {
    ptx::named_barrier_sync(1 + group_, 2 * warpgroup_threads);
  }
  RAPT_DEVICE void pingpong_arrive() const {
    const int next = group_ + 1 < config.warpgroups ? group_ + 1 : 0;
    ptx::named_barrier_arrive(1 + next, 2 * warpgroup_threads);
  }

  // Of the work tile last begun, or of one `before` it.
  RAPT_DEVICE const WorkTileInfo& tile_info(int before) const {
    return shared_.tile_infos[ring_index<tile_info_stages>(work_tile_ - before)];
  }

  // Waits for the next work tile and its queries; false if there is none.
  RAPT_DEVICE bool begin_work_tile() {
    ++work_tile_;
    const PipelineState<config.query_buffers> pipe(work_tile_);
    shared_.queries_full[pipe.index].wait(pipe.phase);
    // Everything is asked for before anything is waited for.
    const WorkTileInfo& next = tile_info(0);
    const int left = next.left, tile = next.tile, first_tile = next.first_tile;
    const auto of_group = next.of[group_];
    if constexpr (config.q_in_registers) load_q_registers();
    skipped_ = skips_tiles<config> ? uniform(of_group.skipped) : 0;
    tile_ = uniform(tile) - skipped_;
    first_tile_ = uniform(first_tile);
    set_span_end();
    unmasked_begin_ = uniform(of_group.unmasked_begin);
    unmasked_end_ = uniform(of_group.unmasked_end);
    if (uniform(left) == 0) return false;
    if constexpr (config.score_mod) {
      RAPT_UNROLL
      for (int half = 0; half < 2; ++half)
        exists_[half] = row_place(p_, next, group_, row() + 8 * half).exists;
    }
    return true;
  }

  // Of the work tile before the one last begun.
  RAPT_DEVICE void store_output(const Output& out, const float (&factor)[2]) {
    const WorkTileInfo& work_tile = tile_info(1);
    if (staged<config>) shared_.output_free[group_].wait((work_tile_ - 1) & 1);
    if (staged<config> && stores_by_tma(p_, work_tile, group_)) {
      stage_output<Element>(own_rows(staging(shared_, group_, work_tile_)), out, factor);
      ptx::fence_proxy_async();
    } else {
      flash_wgmma::store_output<Element>(p_, work_tile, group_, row(), out, factor);
    }
    if (staged<config>) note_output();
  }
  // The warp's output is staged, or stored: its room can be emptied and freed.
  RAPT_DEVICE void note_output() const {
    __syncwarp();
    shared_.output_full[group_].arrive_if(Target::lane() == 0);
  }

  // The warp's part of a warpgroup's tile.
  RAPT_DEVICE static unsigned char* own_rows(unsigned char* tile) {
    return tile + Target::wave() % 4 * 16 * panel_row_bytes;
  }
  RAPT_DEVICE void load_q_registers() {
    const unsigned char* queries =
        own_rows(shared_.queries[ring_index<config.query_buffers>(work_tile_)][group_]);
    RAPT_UNROLL
    for (int column = 0; column < config.qk_dim; column += 16)
      ptx::ldmatrix(fragment_address(queries, column), q_registers_[column / 16]);
  }

  // A work tile's first tile of keys may be one that other warpgroups see, but not this one. Its
  // values come after those of the step before.
  RAPT_DEVICE void skip_tile() {
    if (skipped_ != 0) {
      wait_for_keys();
      if (config.pingpong) {
        pingpong_wait();
        pingpong_arrive();
      }
      shared_.keys_free[ring_index<config.stages>(step_)].arrive_if(Target::lane() == 0);
    }
    step_ += skipped_;
  }
  RAPT_DEVICE void free_skipped_values() const {
    if (skipped_ == 0) return;
    wait_for_values(step_ - 1);
    free_values(step_ - 1);
  }

  // A number that is the same in all lanes, in a way that lets the compiler know.
  RAPT_DEVICE static int uniform(int number) {
    return static_cast<int>(__reduce_or_sync(Target::all_lanes, static_cast<unsigned>(number)));
  }

  RAPT_DEVICE void wait_for_keys() const {
    const PipelineState<config.stages> pipe(step_);
    shared_.keys_full[pipe.index].wait(pipe.phase);
  }
  RAPT_DEVICE void wait_for_values(int step) const {
    const PipelineState<config.stages> pipe(step);
    shared_.values_full[pipe.index].wait(pipe.phase);
  }

  // Of a column in a tile, in bytes.
  RAPT_DEVICE static int offset(int column, int rows) {
    return column / panel_columns * rows * panel_row_bytes + column % panel_columns * 2;
  }

  RAPT_DEVICE void issue_scores(Scores& scores) const {
    using Mma = ptx::Wgmma<Element, config.keys>;
    const auto keys =
        ptx::MatrixDescriptor::k_major(shared_.keys[ring_index<config.stages>(step_)]);
    ptx::wgmma_fence();
    if constexpr (config.q_in_registers) {
      RAPT_UNROLL
      for (int column = 0; column < config.qk_dim; column += 16)
        Mma::mma(scores, q_registers_[column / 16], keys.offset_by(offset(column, config.keys)),
                 column > 0);
    } else {
      const auto queries = ptx::MatrixDescriptor::k_major(
          shared_.queries[ring_index<config.query_buffers>(work_tile_)][group_]);
      RAPT_UNROLL
      for (int column = 0; column < config.qk_dim; column += 16)
        Mma::mma(scores, queries.offset_by(offset(column, warpgroup_rows)),
                 keys.offset_by(offset(column, config.keys)), column > 0);
    }
    ptx::wgmma_commit();
  }

  RAPT_DEVICE void issue_output(const Weights& weights, int step, Output& out) const {
    const auto values = ptx::MatrixDescriptor::mn_major(
        shared_.values[ring_index<config.stages>(step)], config.keys * panel_row_bytes);
    ptx::wgmma_fence();
    RAPT_UNROLL
    for (int i = 0; i < config.keys / 16; ++i) {
      ptx::Wgmma<Element, config.v_dim>::mma_mn_major(
          out, weights[i], values.offset_by(i * 16 * panel_row_bytes), true);
    }
    ptx::wgmma_commit();
  }

  RAPT_DEVICE void free_keys() const {
    const bool first = Target::lane() == 0;
    shared_.keys_free[ring_index<config.stages>(step_)].arrive_if(first);
    if (!staged_in_queries<config>)
      shared_.queries_free[ring_index<config.query_buffers>(work_tile_)].arrive_if(
          first && tile_ == first_tile_);
  }

  RAPT_DEVICE void free_values(int step) const {
    shared_.values_free[ring_index<config.stages>(step)].arrive_if(Target::lane() == 0);
  }

  RAPT_DEVICE void wait_for_output(int step, Output& out) const {
    ptx::wgmma_wait<0>();
    ptx::fence_operand(out);
    free_values(step);
  }

  // Dot products become weights, those of the second row in finish_softmax where that can be: after
  // the wait for P V, beside packing. Whether row maxima moved, and by what.
  RAPT_DEVICE bool begin_softmax(Scores& scores, Rows& rows, float (&out_scale)[2]) {
    if constexpr (config.score_mod) {
      float share = 0, sizes[2] = {};
      if (p_.call.softcap > 0) {
        apply_mask(scores, 0);  // how scores are capped is not for those to decide that nobody sees
        RAPT_UNROLL
        for (int row = 0; row < 2; ++row) sizes[row] = largest_size(scores, row);
        share = share_of_cap(p_, exists_, sizes);
      }
      const bool by_polynomial = p_.only_capped && all_fit<3>(share);
      if (!by_polynomial) {
        scale_scores(p_, share, scores);
        if (p_.bias_by_tma) add_biases(scores);
        score_pairs<Element>(p_, tile_info(0), group_, row(), first_key(), scores);
      }
      apply_mask(scores, gpu::minus_infinity);
      if (by_polynomial) {
        const Capped<3> capped(p_);
        bool max_changed = false;
        RAPT_UNROLL
        for (int row = 0; row < 2; ++row) {
          max_changed |= update_max<Element>(scores, sizes[row], capped, row, rows, out_scale);
          exponentiate(scores, capped, row, rows);
        }
        return max_changed;
      }
      const bool max_changed = update_max_and_exponentiate(scores, Scaled{1}, rows, out_scale);
      exponentiate(scores, Scaled{1}, 1, rows);
      return max_changed;
    } else {
      apply_mask(scores, gpu::minus_infinity);
      return update_max_and_exponentiate(scores, Scaled{p_.scale}, rows, out_scale);
    }
  }
  RAPT_DEVICE void finish_softmax(Scores& scores, Rows& rows) const {
    if constexpr (!config.score_mod) exponentiate(scores, Scaled{p_.scale}, 1, rows);
  }
  RAPT_DEVICE void add_biases(Scores& scores) {
    shared_.biases_full[group_].wait(biases_ & 1);
    ++biases_;
    add_tma_bias<Element>(shared_.biases[group_], row(), scores);
    __syncwarp();
    if (Target::lane() == 0) shared_.biases_free[group_].arrive();
  }

  // Row maxima move, and the first row is weighed. Three warpgroups keep all units busy, and fewer
  // instructions are less time. With two it is what they wait for that counts, branches too, and
  // each work tile begins with row maxima that move.
  RAPT_DEVICE static bool update_max_and_exponentiate(Scores& scores, const Scaled& scaled,
                                                      Rows& rows, float (&out_scale)[2]) {
    bool max_changed;
    if constexpr (config.warpgroups == 3) {
      max_changed = update_max<Element>(scores, largest(scores, 0), scaled, 0, rows, out_scale);
      exponentiate(scores, scaled, 0, rows);
      max_changed |= update_max<Element>(scores, largest(scores, 1), scaled, 1, rows, out_scale);
    } else {
      max_changed = update_max<Element>(scores, scaled, 0, rows, out_scale);
      exponentiate(scores, scaled, 0, rows);
      max_changed |= update_max<Element>(scores, scaled, 1, rows, out_scale);
      max_changed = __any_sync(Target::all_lanes, max_changed);
    }
    return max_changed;
  }

  // Of the thread's first column.
  RAPT_DEVICE int first_key() const { return tile_ * config.keys + Target::lane() % 4 * 2; }

  // Scores of pairs outside the window become `hidden`.
  RAPT_DEVICE void apply_mask(Scores& scores, float hidden) const {
    if (tile_ >= unmasked_begin_ && tile_ < unmasked_end_) return;
    const WorkTileInfo& work_tile = tile_info(0);
    RAPT_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int query =
          group_ * p_.schedule.queries + p_.schedule.packed_heads.quotient(row() + 8 * half);
      const int begin = work_tile.visible_begin + query - first_key();
      const int end = min(work_tile.visible_end + query, work_tile.kv_len) - first_key();
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
  RAPT_DEVICE void set_span_end() {
    const int end = tile_ / tiles_of_span * tiles_of_span;
    span_end_ = end > first_tile_ ? end : first_tile_;
  }
  // Whether the warp has promoted sums of the work tile tile: noted in shared memory, not in a
  // register.
  RAPT_DEVICE bool has_promoted_sums() const {
    return uniform(shared_.promoted_sums[Target::wave()]) != 0;
  }
  RAPT_DEVICE void note_promoted_sums(bool any) {
    shared_.promoted_sums[Target::wave()] = any;  // the same from all lanes
    __syncwarp();
  }
  RAPT_DEVICE int started_at(const WorkTileInfo& work_tile) const {
    return work_tile.tile - (skips_tiles<config> ? work_tile.of[group_].skipped : 0);
  }
  // Whether a span of output ended in a work tile's tiles before `tile`, its first step's left out.
  RAPT_DEVICE bool has_promoted_output(const WorkTileInfo& work_tile, int tile) const {
    return (started_at(work_tile) - 1) / tiles_of_output_span > tile / tiles_of_output_span;
  }
  RAPT_DEVICE bool has_promoted_output(const WorkTileInfo& work_tile) const {
    return has_promoted_output(work_tile, work_tile.first_tile);
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
            ptx::pack_two<Element>(scores[j][2 * half], scores[j][2 * half + 1]);
      }
    }
  }

  const Parameters& p_;
  SharedStorage<config>& shared_;
  int group_;
  uint32_t q_registers_[config.q_in_registers ? config.qk_dim / 16 : 1][4];  // Q (64, qk_dim)
  int work_tile_ = -1, step_ = 0;              // counted from 0 on, which tells their buffers
  int tile_ = 0, first_tile_ = 0;              // of keys: where the work tile is, and where it ends
  int span_end_ = 0;                           // the next tile that ends a span, or the work tile
  int skipped_ = 0;                            // tiles, 0 or 1, before the work tile's first step
  int biases_ = 0;                             // tiles of them, used so far
  int unmasked_begin_ = 0, unmasked_end_ = 0;  // tiles that all of the warpgroup's rows see whole
  bool exists_[2] = {};                        // whether the thread's rows are those of a query
};

}  // namespace rapt::cuda::flash_wgmma
