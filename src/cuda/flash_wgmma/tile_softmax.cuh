// A warpgroup's tile of dot products becomes weights: score mod, mask, online softmax.
#pragma once

#include "src/cuda/flash_wgmma/position.cuh"
#include "src/cuda/flash_wgmma/score_mod.cuh"

namespace rapt::cuda::flash_wgmma {

template <TileConfig config, class Element>
class TileSoftmax {
 public:
  using Scores = float[config.keys / 8][4];  // (64, keys)

  RAPT_DEVICE TileSoftmax(const Parameters& p, SharedStorage<config>& shared)
      : p_(p), shared_(shared) {}

  RAPT_DEVICE void begin_work_tile(const WorkTileInfo& info, int group) {
    if constexpr (config.score_mod) {
      RAPT_UNROLL
      for (int half = 0; half < 2; ++half)
        exists_[half] = row_place(p_, info, group, Position<config>::row() + 8 * half).exists;
    }
  }

  // Dot products become weights, those of the second row in finish() where that can be: after
  // the wait for P V, beside packing. Whether row maxima moved, and by what.
  RAPT_DEVICE bool begin(const Position<config>& at, Scores& scores, Rows& rows,
                         float (&out_scale)[2]) {
    if constexpr (config.score_mod) {
      float share = 0, sizes[2] = {};
      if (p_.call.softcap > 0) {
        // How scores are capped is not for those to decide that nobody sees.
        apply_mask(at, scores, 0);
        RAPT_UNROLL
        for (int row = 0; row < 2; ++row) sizes[row] = largest_size(scores, row);
        share = share_of_cap(p_, exists_, sizes);
      }
      const bool by_polynomial = p_.only_capped && all_fit<3>(share);
      if (!by_polynomial) {
        scale_scores(p_, share, scores);
        if (p_.bias_by_tma) add_biases(at.group, scores);
        score_pairs<Element>(p_, info(at), at.group, at.row(),
                             at.first_key(info(at).key_tile(at.tile)), scores);
      }
      apply_mask(at, scores, gpu::minus_infinity);
      if (by_polynomial) {
        const Capped<3> capped(p_);
        bool max_changed = false;
        RAPT_UNROLL
        for (int row = 0; row < 2; ++row) {
          max_changed |= update_max<Element>(scores, sizes[row], capped, row, rows, out_scale);
          exponentiate(scores, capped, row, rows);
        }
        drop_weights(at, scores);
        return max_changed;
      }
      const bool max_changed = update_max_and_exponentiate(scores, Scaled{1}, rows, out_scale);
      exponentiate(scores, Scaled{1}, 1, rows);
      drop_weights(at, scores);
      return max_changed;
    } else {
      apply_mask(at, scores, gpu::minus_infinity);
      return update_max_and_exponentiate(scores, Scaled{p_.scale}, rows, out_scale);
    }
  }
  RAPT_DEVICE void finish(Scores& scores, Rows& rows) const {
    if constexpr (!config.score_mod) exponentiate(scores, Scaled{p_.scale}, 1, rows);
  }

 private:
  RAPT_DEVICE const WorkTileInfo& info(const Position<config>& at) const {
    return shared_.tile_infos[hopper::ring_index<tile_info_stages>(at.work_tile)];
  }
  RAPT_DEVICE void add_biases(int group, Scores& scores) {
    shared_.bias_buffers.wait_full(
        hopper::PipelineState<config.warpgroups>::of_buffer(group, biases_));
    ++biases_;
    add_tma_bias<Element>(shared_.biases[group], Position<config>::row(), scores);
    __syncwarp();
    if (Target::lane() == 0) shared_.bias_buffers.free[group].arrive();
  }

  // After they were summed.
  RAPT_DEVICE void drop_weights(const Position<config>& at, Scores& weights) const {
    if (!p_.call.dropout.seed) return;
    flash_wgmma::drop_weights(p_, info(at), at.group, at.row(),
                              at.first_key(info(at).key_tile(at.tile)), weights);
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

  // Scores of pairs outside the window become `hidden`.
  RAPT_DEVICE void apply_mask(const Position<config>& at, Scores& scores, float hidden) const {
    if (at.tile >= at.unmasked_begin && at.tile < at.unmasked_end) return;
    if constexpr (config.score_mod) {
      // Apart: with two ranges to know of, the other way would have fewer registers.
      if (p_.call.window.first_keys > 0) return apply_mask<true>(at, scores, hidden);
    }
    apply_mask<false>(at, scores, hidden);
  }
  template <bool first_keys>
  RAPT_DEVICE void apply_mask(const Position<config>& at, Scores& scores, float hidden) const {
    const WorkTileInfo& work_tile = info(at);
    const int key_tile = first_keys ? work_tile.key_tile(at.tile) : at.tile;
    const int first_key = at.first_key(key_tile);
    RAPT_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int query =
          at.group * p_.schedule.queries + p_.schedule.packed_heads.quotient(at.row() + 8 * half);
      const int begin = work_tile.visible_begin + query - first_key;
      const int end = min(work_tile.visible_end + query, work_tile.kv_len) - first_key;
      RAPT_UNROLL
      for (int i = 0; i < 2; ++i) {
        // A bit for each of the thread's columns, 8 apart.
        uint32_t before = bits_below(begin - i);
        if constexpr (first_keys) {
          const Index first = semantics::smaller(p_.call.window.first_keys, work_tile.kv_len);
          before &= ~bits_below(static_cast<int>(first) - first_key - i);
        }
        const uint32_t visible = bits_below(end - i) & ~before;
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

  const Parameters& p_;
  SharedStorage<config>& shared_;
  int biases_ = 0;       // tiles of them, used so far
  bool exists_[2] = {};  // whether the thread's rows are those of a query
};

}  // namespace rapt::cuda::flash_wgmma
