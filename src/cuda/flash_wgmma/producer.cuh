// The warp that loads: queries, keys and values of all steps, in the order they are used. The
// values of a step come after the keys of the next one.
#pragma once

#include "src/cuda/flash_wgmma/work.cuh"
#include "src/cuda/ptx/tma.cuh"

namespace rapt::cuda::flash_wgmma {

template <TileConfig config>
class Producer {
 public:
  RAPT_DEVICE Producer(const Parameters& p, Shared<config>& shared) : p_(p), shared_(shared) {}

  // Works and steps are counted from 0 on.
  RAPT_DEVICE void run() {
    int step = 0, previous_tile = 0;
    for (int work = 0;; ++work) {
      shared_.assignment_there.wait(work & 1);
      const Assignment& now = assignment(work);
      const Assignment& before = assignment(work - 1);
      if (now.left == 0) {
        if (work > 0) load_values(before, previous_tile, step - 1);
        return finish(work);
      }
      const int last = now.tile, first = now.first_tile;
      const int ask_at = last < first + 3 ? last : first + 3;
      for (int tile = last; tile >= first; --tile, ++step) {
        load_keys(now, tile, step);
        if (tile == last) load_queries(work);
        if (step > 0) load_values(tile == last ? before : now, previous_tile, step - 1);
        previous_tile = tile;
        if (tile == ask_at && Target::lane() == 0) shared_.assignment_wanted.arrive();
      }
    }
  }

 private:
  RAPT_DEVICE Assignment& assignment(int work) {
    return shared_.assignments[static_cast<uint32_t>(work) % assignment_slots];
  }

  RAPT_DEVICE void load_queries(int work) {
    const Slot<config.query_buffers> slot(work);
    shared_.queries_free[slot.at].wait(slot.parity ^ 1);
    if (Target::lane() != 0) return;
    const int queries = p_.schedule.queries;
    ptx::Barrier& full = shared_.queries_full[slot.at];
    full.arrive_and_expect(config.warpgroups * panels(config.qk_dim) * queries *
                           p_.schedule.packed.value * panel_row_bytes);
    const Assignment& from = assignment(work);
    RAPT_NO_UNROLL
    for (int group = 0; group < config.warpgroups; ++group) {
      RAPT_NO_UNROLL
      for (int panel = 0; panel < panels(config.qk_dim); ++panel) {
        ptx::load_box(
            p_.queries, shared_.queries[slot.at][group] + panel * warpgroup_rows * panel_row_bytes,
            full, panel * panel_columns, 0, from.row + group * queries, from.head, from.outer);
      }
    }
  }

  // Instead of queries, when there is no work of this number.
  RAPT_DEVICE void finish(int work) {
    const Slot<config.query_buffers> slot(work);
    shared_.queries_free[slot.at].wait(slot.parity ^ 1);
    if (Target::lane() == 0) shared_.queries_full[slot.at].arrive();
  }

  RAPT_DEVICE void load_keys(const Assignment& from, int tile, int step) {
    const Slot<config.stages> slot(step);
    load_tile<config.qk_dim>(p_.keys, from, tile, shared_.keys[slot.at], shared_.keys_free[slot.at],
                             slot.parity, shared_.keys_full[slot.at]);
  }

  // Rows that no query of the sequence sees may hold anything, and a weight of zero does not make
  // it vanish: they are cleared. What lies behind the tensor's end comes as zeros.
  RAPT_DEVICE void load_values(const Assignment& from, int tile, int step) {
    const Slot<config.stages> slot(step);
    ptx::Barrier& full = shared_.values_full[slot.at];
    const int begin = from.seen_begin - tile * config.keys;
    const int end = from.seen_end - tile * config.keys;
    const bool ends_tensor =
        from.seen_end == p_.call.kv_len && !p_.call.kv_starts && !p_.call.page_table;
    const bool clean = begin <= 0 && (end >= config.keys || ends_tensor);
    load_tile<config.v_dim>(p_.values, from, tile, shared_.values[slot.at],
                            shared_.values_free[slot.at], slot.parity,
                            clean ? full : shared_.values_landed);
    if (clean) return;
    shared_.values_landed.wait(landed_parity_);
    landed_parity_ ^= 1;
    clear_all_but(shared_.values[slot.at], begin, end);
    ptx::fence_stores();
    __syncwarp();
    if (Target::lane() == 0) full.arrive();
  }

  // As soon as the buffer is free.
  template <int dim>
  RAPT_DEVICE void load_tile(const CUtensorMap& map, const Assignment& from, int tile,
                             unsigned char* to, ptx::Barrier& free, uint32_t parity,
                             ptx::Barrier& barrier) const {
    if (p_.call.page_table) return load_pages<dim>(map, from, tile, to, free, parity, barrier);
    free.wait(parity ^ 1);
    if (Target::lane() != 0) return;
    barrier.arrive_and_expect(tile_bytes(config.keys, dim));
    load_box<dim>(map, to, barrier, {from.key_row + tile * config.keys, from.key_outer},
                  from.kv_head);
  }

  // Several boxes, for which lanes take turns. Where the first of each lies is looked up before the
  // buffer is free, as the page table takes its time.
  template <int dim>
  RAPT_DEVICE void load_pages(const CUtensorMap& map, const Assignment& from, int tile,
                              unsigned char* to, ptx::Barrier& free, uint32_t parity,
                              ptx::Barrier& barrier) const {
    const int lane = Target::lane(), first_key = tile * config.keys;
    const Box first = box_at(from, first_key + lane * p_.box_keys);
    free.wait(parity ^ 1);
    if (lane == 0) barrier.arrive_and_expect(tile_bytes(config.keys, dim));
    for (int row = lane * p_.box_keys; row < config.keys; row += 32 * p_.box_keys) {
      const Box box = row == lane * p_.box_keys ? first : box_at(from, first_key + row);
      load_box<dim>(map, to + row * panel_row_bytes, barrier, box, from.kv_head);
    }
  }

  // Where keys lie together: the first one's row, and the batch or page.
  struct Box {
    int row, outer;
  };

  template <int dim>
  RAPT_DEVICE static void load_box(const CUtensorMap& map, unsigned char* to, ptx::Barrier& barrier,
                                   Box box, int kv_head) {
    RAPT_UNROLL
    for (int panel = 0; panel < panels(dim); ++panel) {
      ptx::load_box(map, to + panel * config.keys * panel_row_bytes, barrier, panel * panel_columns,
                    box.row, kv_head, box.outer);
    }
  }

  // Keys behind the last one may come from anywhere: nobody sees them.
  RAPT_DEVICE Box box_at(const Assignment& from, int key) const {
    if (key >= from.kv_len) return {0, 0};
    const int entry = p_.page_size.quotient(key);
    const int32_t page = p_.call.page_table[from.sequence * p_.call.page_table_stride + entry];
    return {key - entry * p_.page_size.value, semantics::existing_page(p_.call, page)};
  }

  RAPT_DEVICE static void clear_all_but(unsigned char* tile, int begin, int end) {
    for (int i = Target::lane(); i < tile_bytes(config.keys, config.v_dim) / 16; i += 32) {
      const int row = i * 16 / panel_row_bytes % config.keys;
      if (row < begin || row >= end) reinterpret_cast<uint4*>(tile)[i] = make_uint4(0, 0, 0, 0);
    }
  }

  const Parameters& p_;
  Shared<config>& shared_;
  uint32_t landed_parity_ = 0;
};

}  // namespace rapt::cuda::flash_wgmma
