// The producer: warps that load, in the order things are used, one queries and keys, one biases and
// values. Neither waits for buffers that only the other needs.
#pragma once

#include "src/cuda/flash_wgmma/shared_storage.cuh"
#include "src/cuda/hopper/key_tile_loader.cuh"

namespace rapt::cuda::flash_wgmma {

// Queries, and keys: they are needed first.
template <TileConfig config>
class KeyLoader {
 public:
  RAPT_DEVICE KeyLoader(const Parameters& p, SharedStorage<config>& shared)
      : p_(p), shared_(shared), keys_(p.call, p.page_size, p.box_keys, p.keys) {}

  // Work tiles and steps are counted from 0 on.
  RAPT_DEVICE void run() {
    int step = 0;
    for (int work_tile = 0;; ++work_tile) {
      const WorkTileInfo& now = wait_for_tile_info(shared_, work_tile);
      if (now.left == 0) return finish(work_tile);
      const int last = now.tile, first = now.first_tile;
      const int ask_at = last < first + 3 ? last : first + 3;
      if (queries_first) load_queries(now, work_tile);
      for (int tile = last; tile >= first; --tile, ++step) {
        const hopper::PipelineState<config.stages> pipe(step);
        keys_.load(now, config.score_mod ? now.key_tile(tile) : tile, shared_.keys[pipe.index],
                   shared_.key_ring, pipe, shared_.key_ring.full[pipe.index]);
        if (!queries_first && tile == last) load_queries(now, work_tile);
        if (tile == ask_at && Target::lane() == 0) shared_.tile_info_ring.ask();
      }
    }
  }

 private:
  using Queries = Tiles<config>::Queries;
  // Else their buffer is that of the work tile before until its last scores, and keys need not wait
  // too.
  static constexpr bool queries_first = config.query_buffers > 1;

  RAPT_DEVICE void load_queries(const WorkTileInfo& from, int work_tile) {
    const hopper::PipelineState<config.query_buffers> pipe(work_tile);
    shared_.query_ring.wait_free(pipe);
    if (Target::lane() != 0) return;
    const int queries = p_.schedule.queries;
    ptx::Barrier& full = shared_.query_ring.full[pipe.index];
    full.arrive_and_expect(config.warpgroups * Queries::panels * queries *
                           p_.schedule.packed_heads.value * hopper::panel_row_bytes);
    RAPT_NO_UNROLL
    for (int group = 0; group < config.warpgroups; ++group) {
      RAPT_NO_UNROLL
      for (int panel = 0; panel < Queries::panels; ++panel)
        hopper::load_panel<Queries>(p_.queries, shared_.queries[pipe.index][group], panel, full, 0,
                                    0, from.row + group * queries, from.head, from.outer);
    }
  }

  // Instead of queries, when there is no work tile of this number.
  RAPT_DEVICE void finish(int work_tile) {
    const hopper::PipelineState<config.query_buffers> pipe(work_tile);
    shared_.query_ring.wait_free(pipe);
    if (Target::lane() == 0) shared_.query_ring.full[pipe.index].arrive();
  }

  const Parameters& p_;
  SharedStorage<config>& shared_;
  hopper::KeyTileLoader<typename Tiles<config>::Keys> keys_;
};

// Biases of 16 bits, where TMA can take them: a tile for each warpgroup.
template <TileConfig config>
class BiasLoader {
 public:
  RAPT_DEVICE BiasLoader(const Parameters& p, SharedStorage<config>& shared)
      : p_(p), shared_(shared) {}

  RAPT_DEVICE void load(const WorkTileInfo& from, int tile) {
    RAPT_UNROLL
    for (int group = 0; group < config.warpgroups; ++group) {
      const bool skipped = skips_tiles<config> && tile == from.tile && from.of[group].skipped;
      if (!skipped) load(from, tile, group, loaded_[group]++);
    }
  }

 private:
  RAPT_DEVICE void load(const WorkTileInfo& from, int tile, int group, int number) const {
    using Biases = Tiles<config>::Biases;
    shared_.bias_buffers.wait_free(
        hopper::PipelineState<config.warpgroups>::of_buffer(group, number));
    if (Target::lane() != 0) return;
    ptx::Barrier& full = shared_.bias_buffers.full[group];
    full.arrive_and_expect(Biases::bytes);
    const Index(&stride)[4] = p_.call.bias_stride;
    RAPT_NO_UNROLL
    for (int panel = 0; panel < Biases::panels; ++panel)
      hopper::load_panel<Biases>(
          p_.biases, shared_.biases[group], panel, full, from.key_tile(tile) * config.keys,
          from.first + group * warpgroup_rows, stride[1] == 0 ? 0 : from.head,
          stride[0] == 0 ? 0 : from.sequence);
  }

  const Parameters& p_;
  SharedStorage<config>& shared_;
  int loaded_[config.warpgroups] = {};
};

// Values, and biases before them: those are needed first.
template <TileConfig config>
class ValueLoader {
 public:
  RAPT_DEVICE ValueLoader(const Parameters& p, SharedStorage<config>& shared)
      : p_(p),
        shared_(shared),
        values_(p.call, p.page_size, p.box_keys, p.values),
        biases_(p, shared) {}

  RAPT_DEVICE void run() {
    int step = 0;
    for (int work_tile = 0;; ++work_tile) {
      const WorkTileInfo& now = wait_for_tile_info(shared_, work_tile);
      if (now.left == 0) return;
      const int first = now.first_tile;
      for (int tile = now.tile; tile >= first; --tile, ++step) {
        if (config.score_mod && p_.bias_by_tma) biases_.load(now, tile);
        load_values(now, config.score_mod ? now.key_tile(tile) : tile, step);
      }
    }
  }

 private:
  // Rows that no query of the sequence sees may hold anything, and a weight of zero does not make
  // it vanish: they are cleared. What lies behind the tensor's end comes as zeros.
  RAPT_DEVICE void load_values(const WorkTileInfo& from, int tile, int step) {
    const hopper::PipelineState<config.stages> pipe(step);
    ptx::Barrier& full = shared_.value_ring.full[pipe.index];
    const int begin = from.seen_begin - tile * config.keys;
    const int end = from.seen_end - tile * config.keys;
    const bool ends_tensor = from.seen_end > 0 && from.seen_end == p_.call.kv_len &&
                             !p_.call.kv_starts && !p_.call.page_table;
    // Those before the gap, if there is one.
    const int first_end =
        config.score_mod
            ? static_cast<int>(semantics::smaller(p_.call.window.first_keys, from.seen_end)) -
                  tile * config.keys
            : 0;
    const bool clean = (begin <= 0 && (end >= config.keys || ends_tensor)) ||
                       (config.score_mod && first_end >= config.keys);
    values_.load(from, tile, shared_.values[pipe.index], shared_.value_ring, pipe,
                 clean ? full : shared_.values_landed);
    if (clean) return;
    shared_.values_landed.wait(landed_phase_);
    landed_phase_ ^= 1;
    clear_all_but(shared_.values[pipe.index], first_end, begin, end);
    ptx::fence_proxy_async();
    __syncwarp();
    if (Target::lane() == 0) full.arrive();
  }

  // Rows below `first_end` and from `begin` to `end` stay.
  RAPT_DEVICE static void clear_all_but(unsigned char* tile, int first_end, int begin, int end) {
    for (int i = Target::lane(); i < Tiles<config>::Values::bytes / 16; i += 32) {
      const int row = i * 16 / hopper::panel_row_bytes % config.keys;
      if (config.score_mod && row < first_end) continue;
      if (row < begin || row >= end) reinterpret_cast<uint4*>(tile)[i] = make_uint4(0, 0, 0, 0);
    }
  }

  const Parameters& p_;
  SharedStorage<config>& shared_;
  hopper::KeyTileLoader<typename Tiles<config>::Values> values_;
  BiasLoader<config> biases_;
  uint32_t landed_phase_ = 0;
};

}  // namespace rapt::cuda::flash_wgmma
