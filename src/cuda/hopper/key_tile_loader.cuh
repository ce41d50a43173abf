// Tiles of keys, or of values, through TMA: as one box where keys lie one after another, as several
// where they lie in pages. A warp does.
#pragma once

#include "src/cuda/hopper/pipeline.cuh"
#include "src/cuda/hopper/tma_tile.cuh"
#include "src/gpu/divisor.hpp"
#include "src/semantics/call.hpp"

namespace rapt::cuda::hopper {

// A Source says where the keys and values of one sequence and kv head lie: it has `sequence`,
// `kv_len` and `kv_head` and, where there are no pages, key 0's place as `key_row` and `key_outer`.
template <class Tile>
class KeyTileLoader {
 public:
  // `box_keys` is what one load of the map brings: of a page, where there are pages.
  RAPT_DEVICE KeyTileLoader(const semantics::Call& call, const gpu::Divisor& page_size,
                            const int& box_keys, const CUtensorMap& map)
      : call_(call), page_size_(page_size), box_keys_(box_keys), map_(map) {}

  // The tile-th one, into the buffer `to` of a ring, as soon as that is free; `full` hears of it.
  template <class Source, int stages>
  RAPT_DEVICE void load(const Source& from, int tile, unsigned char* to, Ring<stages>& ring,
                        PipelineState<stages> pipe, ptx::Barrier& full) const {
    __syncwarp();
    if (call_.page_table) return load_pages(from, tile, to, ring, pipe, full);
    ring.wait_free(pipe);
    if (Target::lane() != 0) return;
    full.arrive_and_expect(Tile::bytes);
    load_box({from.key_row + tile * Tile::rows, from.key_outer}, from.kv_head, to, full);
  }

 private:
  // Where keys lie together: the first one's row, and the batch or page.
  struct Box {
    int row, outer;
  };

  // Several boxes, for which lanes take turns. Where the first of each lies is looked up before the
  // buffer is free, as the page table takes its time.
  template <class Source, int stages>
  RAPT_DEVICE void load_pages(const Source& from, int tile, unsigned char* to, Ring<stages>& ring,
                              PipelineState<stages> pipe, ptx::Barrier& full) const {
    const int lane = Target::lane(), first_key = tile * Tile::rows;
    const Box first = box_at(from, first_key + lane * box_keys_);
    ring.wait_free(pipe);
    if (lane == 0) full.arrive_and_expect(Tile::bytes);
    for (int row = lane * box_keys_; row < Tile::rows; row += 32 * box_keys_) {
      const Box box = row == lane * box_keys_ ? first : box_at(from, first_key + row);
      load_box(box, from.kv_head, to + row * panel_row_bytes, full);
    }
  }

  RAPT_DEVICE void load_box(Box box, int kv_head, unsigned char* to, ptx::Barrier& full) const {
    load_tile<Tile>(map_, to, full, 0, box.row, kv_head, box.outer);
  }

  // Keys behind the last one may come from anywhere: nobody sees them.
  template <class Source>
  RAPT_DEVICE Box box_at(const Source& from, int key) const {
    if (key >= from.kv_len) return {0, 0};
    const int entry = page_size_.quotient(key);
    const semantics::Index page = semantics::page_of(call_, from.sequence, entry);
    return {key - entry * page_size_.value, static_cast<int>(page)};
  }

  const semantics::Call& call_;
  const gpu::Divisor& page_size_;
  const int& box_keys_;
  const CUtensorMap& map_;
};

}  // namespace rapt::cuda::hopper
