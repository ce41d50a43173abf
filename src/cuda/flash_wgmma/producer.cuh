// The warps that load, in the order things are used: one queries and keys, one biases and values.
// Neither waits for buffers that only the other needs. And the one that stores.
#pragma once

#include "src/cuda/flash_wgmma/tile_scheduler.cuh"
#include "src/cuda/ptx/tma.cuh"

namespace rapt::cuda::flash_wgmma {

// Loads tiles of keys or of values, of heads of at most `dim`.
template <TileConfig config, int dim>
class TileLoader {
 public:
  RAPT_DEVICE TileLoader(const Parameters& p, const CUtensorMap& map) : p_(p), map_(map) {}

  // As soon as the buffer is free.
  RAPT_DEVICE void load(const WorkTileInfo& from, int tile, unsigned char* to, ptx::Barrier& free,
                        uint32_t phase, ptx::Barrier& barrier) const {
    __syncwarp();
    if (p_.call.page_table) return load_pages(from, tile, to, free, phase, barrier);
    free.wait(phase ^ 1);
    if (Target::lane() != 0) return;
    barrier.arrive_and_expect(tile_bytes(config.keys, dim));
    tma_load({from.key_row + tile * config.keys, from.key_outer}, from.kv_head, to, barrier);
  }

 private:
  // Where keys lie together: the first one's row, and the batch or page.
  struct Box {
    int row, outer;
  };

  // Several boxes, for which lanes take turns. Where the first of each lies is looked up before the
  // buffer is free, as the page table takes its time.
  RAPT_DEVICE void load_pages(const WorkTileInfo& from, int tile, unsigned char* to,
                              ptx::Barrier& free, uint32_t phase, ptx::Barrier& barrier) const {
    const int lane = Target::lane(), first_key = tile * config.keys;
    const Box first = box_at(from, first_key + lane * p_.box_keys);
    free.wait(phase ^ 1);
    if (lane == 0) barrier.arrive_and_expect(tile_bytes(config.keys, dim));
    for (int row = lane * p_.box_keys; row < config.keys; row += 32 * p_.box_keys) {
      const Box box = row == lane * p_.box_keys ? first : box_at(from, first_key + row);
      tma_load(box, from.kv_head, to + row * panel_row_bytes, barrier);
    }
  }

  RAPT_DEVICE void tma_load(Box box, int kv_head, unsigned char* to, ptx::Barrier& barrier) const {
    RAPT_UNROLL
    for (int panel = 0; panel < panels(dim); ++panel) {
      ptx::tma_load(map_, to + panel * config.keys * panel_row_bytes, barrier,
                    panel * panel_columns, box.row, kv_head, box.outer);
    }
  }

  // Keys behind the last one may come from anywhere: nobody sees them.
  RAPT_DEVICE Box box_at(const WorkTileInfo& from, int key) const {
    if (key >= from.kv_len) return {0, 0};
    const int entry = p_.page_size.quotient(key);
    const int32_t page = p_.call.page_table[from.sequence * p_.call.page_table_stride + entry];
    return {key - entry * p_.page_size.value, semantics::existing_page(p_.call, page)};
  }

  const Parameters& p_;
  const CUtensorMap& map_;
};

template <TileConfig config>
class KeyLoader {
 public:
  RAPT_DEVICE KeyLoader(const Parameters& p, SharedStorage<config>& shared)
      : p_(p), shared_(shared), keys_(p, p.keys) {}

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
        const PipelineState<config.stages> pipe(step);
        keys_.load(now, tile, shared_.keys[pipe.index], shared_.keys_free[pipe.index], pipe.phase,
                   shared_.keys_full[pipe.index]);
        if (!queries_first && tile == last) load_queries(now, work_tile);
        if (tile == ask_at && Target::lane() == 0) shared_.tile_info_wanted.arrive();
      }
    }
  }

 private:
  // Else their buffer is that of the work tile before until its last scores, and keys need not wait
  // too.
  static constexpr bool queries_first = config.query_buffers > 1;

  RAPT_DEVICE void load_queries(const WorkTileInfo& from, int work_tile) {
    const PipelineState<config.query_buffers> pipe(work_tile);
    shared_.queries_free[pipe.index].wait(pipe.phase ^ 1);
    if (Target::lane() != 0) return;
    const int queries = p_.schedule.queries;
    ptx::Barrier& full = shared_.queries_full[pipe.index];
    full.arrive_and_expect(config.warpgroups * panels(config.qk_dim) * queries *
                           p_.schedule.packed_heads.value * panel_row_bytes);
    RAPT_NO_UNROLL
    for (int group = 0; group < config.warpgroups; ++group) {
      RAPT_NO_UNROLL
      for (int panel = 0; panel < panels(config.qk_dim); ++panel) {
        ptx::tma_load(p_.queries,
                      shared_.queries[pipe.index][group] + panel * warpgroup_rows * panel_row_bytes,
                      full, panel * panel_columns, 0, from.row + group * queries, from.head,
                      from.outer);
      }
    }
  }

  // Instead of queries, when there is no work tile of this number.
  RAPT_DEVICE void finish(int work_tile) {
    const PipelineState<config.query_buffers> pipe(work_tile);
    shared_.queries_free[pipe.index].wait(pipe.phase ^ 1);
    if (Target::lane() == 0) shared_.queries_full[pipe.index].arrive();
  }

  const Parameters& p_;
  SharedStorage<config>& shared_;
  TileLoader<config, config.qk_dim> keys_;
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
    const PipelineState<1> pipe(number);
    shared_.biases_free[group].wait(pipe.phase ^ 1);
    if (Target::lane() != 0) return;
    ptx::Barrier& full = shared_.biases_full[group];
    full.arrive_and_expect(tile_bytes(warpgroup_rows, config.keys));
    const Index(&stride)[4] = p_.call.bias_stride;
    RAPT_NO_UNROLL
    for (int panel = 0; panel < panels(config.keys); ++panel) {
      ptx::tma_load(p_.biases, shared_.biases[group] + panel * warpgroup_rows * panel_row_bytes,
                    full, tile * config.keys + panel * panel_columns,
                    from.first + group * warpgroup_rows, stride[1] == 0 ? 0 : from.head,
                    stride[0] == 0 ? 0 : from.sequence);
    }
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
      : p_(p), shared_(shared), values_(p, p.values), biases_(p, shared) {}

  RAPT_DEVICE void run() {
    int step = 0;
    for (int work_tile = 0;; ++work_tile) {
      const WorkTileInfo& now = wait_for_tile_info(shared_, work_tile);
      if (now.left == 0) return;
      const int first = now.first_tile;
      for (int tile = now.tile; tile >= first; --tile, ++step) {
        if (config.score_mod && p_.bias_by_tma) biases_.load(now, tile);
        load_values(now, tile, step);
      }
    }
  }

 private:
  // Rows that no query of the sequence sees may hold anything, and a weight of zero does not make
  // it vanish: they are cleared. What lies behind the tensor's end comes as zeros.
  RAPT_DEVICE void load_values(const WorkTileInfo& from, int tile, int step) {
    const PipelineState<config.stages> pipe(step);
    ptx::Barrier& full = shared_.values_full[pipe.index];
    const int begin = from.seen_begin - tile * config.keys;
    const int end = from.seen_end - tile * config.keys;
    const bool ends_tensor = from.seen_end > 0 && from.seen_end == p_.call.kv_len &&
                             !p_.call.kv_starts && !p_.call.page_table;
    const bool clean = begin <= 0 && (end >= config.keys || ends_tensor);
    values_.load(from, tile, shared_.values[pipe.index], shared_.values_free[pipe.index],
                 pipe.phase, clean ? full : shared_.values_landed);
    if (clean) return;
    shared_.values_landed.wait(landed_phase_);
    landed_phase_ ^= 1;
    clear_all_but(shared_.values[pipe.index], begin, end);
    ptx::fence_proxy_async();
    __syncwarp();
    if (Target::lane() == 0) full.arrive();
  }

  RAPT_DEVICE static void clear_all_but(unsigned char* tile, int begin, int end) {
    for (int i = Target::lane(); i < tile_bytes(config.keys, config.v_dim) / 16; i += 32) {
      const int row = i * 16 / panel_row_bytes % config.keys;
      if (row < begin || row >= end) reinterpret_cast<uint4*>(tile)[i] = make_uint4(0, 0, 0, 0);
    }
  }

  const Parameters& p_;
  SharedStorage<config>& shared_;
  TileLoader<config, config.v_dim> values_;
  BiasLoader<config> biases_;
  uint32_t landed_phase_ = 0;
};

// Output that warpgroups have staged, to where it belongs. Then its room is free again. One thread
// does.
template <TileConfig config>
class OutputStorer {
 public:
  RAPT_DEVICE OutputStorer(const Parameters& p, SharedStorage<config>& shared)
      : p_(p), shared_(shared) {}

  RAPT_DEVICE void run() {
    for (int work_tile = 0;; ++work_tile) {
      const bool more = wait_for_tile_info(shared_, work_tile).left > 0;
      if (work_tile == 0 && !more) return;
      RAPT_NO_UNROLL
      for (int group = 0; group < config.warpgroups; ++group) {
        shared_.output_full[group].wait(work_tile & 1);
        if (work_tile > 0)
          store(shared_.tile_infos[ring_index<tile_info_stages>(work_tile - 1)], group,
                staging(shared_, group, work_tile));
        shared_.output_free[group].arrive();
        if (staged_in_queries<config> && (config.q_in_registers || work_tile > 0))
          shared_.queries_free[staging_buffer<config>(work_tile)].arrive();
      }
      if (!more) return;
    }
  }

 private:
  RAPT_DEVICE void store(const WorkTileInfo& from, int group, const unsigned char* tile) const {
    if (!stores_by_tma(p_, from, group)) return;
    RAPT_UNROLL
    for (int panel = 0; panel < panels(config.v_dim); ++panel) {
      ptx::tma_store(p_.output, tile + panel * warpgroup_rows * panel_row_bytes,
                     panel * panel_columns, 0, from.row + group * p_.schedule.queries, from.head,
                     from.outer);
    }
    ptx::tma_store_wait();
  }

  const Parameters& p_;
  SharedStorage<config>& shared_;
};

}  // namespace rapt::cuda::flash_wgmma
