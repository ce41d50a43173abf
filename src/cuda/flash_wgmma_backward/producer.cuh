// The producer: a warp that loads keys and values once a work tile, and queries and dout step after
// step, in the order in which there is room for them.
#pragma once

#include "src/cuda/flash_wgmma_backward/shared_storage.cuh"
#include "src/cuda/hopper/tma_tile.cuh"
#include "src/cuda/ptx/bulk_copy.cuh"

namespace rapt::cuda::flash_wgmma_backward {

template <TileConfig config>
class Producer {
 public:
  RAPT_DEVICE Producer(const Parameters& p, SharedStorage<config>& shared)
      : p_(p), shared_(shared) {}

  RAPT_DEVICE void run() {
    const int group = static_cast<int>(p_.common.call.heads / p_.common.call.kv_heads);
    WorkTiles<config> work_tiles(p_);
    int number = 0, loaded = 0, step = 0;  // work tiles, those with any queries, and their steps
    for (WorkTile work; work_tiles.next(work); ++number) {
      begin(work, number);
      if (work.walk.count == 0) continue;
      for (int head = 0; head < group; ++head) {
        for (int i = 0; i < work.walk.count; ++i, ++step) {
          const Source from = source(work, work.kv_head * group + head, work.walk.tile(i));
          // The consumers are done with dout first.
          if constexpr (config.query_stages == 1) load_dout(from, step);
          load(from, step, p_.queries, shared_.queries, shared_.query_ring, p_.rows.exponents,
               shared_.exponents);
          if (head == 0 && i == 0) load_values(work, loaded++);
          if constexpr (config.query_stages > 1) load_dout(from, step);
        }
      }
    }
    WorkTile none = {};
    none.key_tile = -1;
    begin(none, number);
  }

 private:
  using Keys = Tiles<config>::Keys;
  using Queries = Tiles<config>::Queries;

  // A tile of queries of one head.
  struct Source {
    int row, head, outer;
    int left;        // queries up to the end of the sequence
    Index own_rows;  // of the kernel's own arrays
  };
  RAPT_DEVICE Source source(const WorkTile& work, int head, int tile) const {
    const semantics::Call& call = p_.common.call;
    const int first = tile * config.queries;
    const semantics::Place place = semantics::query_place(call, work.sequence, first);
    const Index own_tile =
        Index{head} * p_.rows.tiles + first_tile(call, work.sequence, config.queries) + tile;
    return {static_cast<int>(place.row), head, static_cast<int>(place.outer),
            static_cast<int>(work.sequence.q_len) - first, own_tile * config.queries};
  }

  // The consumers hear of a work tile, and get its keys if there are queries for them.
  RAPT_DEVICE void begin(const WorkTile& work, int number) {
    const bool clean =
        work.walk.count == 0 || !__any_sync(Target::all_lanes, has_unseen_rows(work));
    shared_.key_ring.wait_free(number);
    if (Target::lane() == 0) shared_.work_tiles[number % 2] = work;
    ptx::Barrier& full = shared_.key_ring.full[0];
    if (work.walk.count == 0) {
      if (Target::lane() == 0) full.arrive();
      return;
    }
    load_rows(work, p_.keys, shared_.keys, clean ? full : shared_.landed);
    if (clean) return;
    clear_landed<Keys>(shared_.keys, full, [&](int row) { return is_unseen(work, row); });
  }
  RAPT_DEVICE void load_values(const WorkTile& work, int number) {
    shared_.value_ring.wait_free(number);
    load_rows(work, p_.values, shared_.values, shared_.value_ring.full[0]);
  }
  RAPT_DEVICE void load_rows(const WorkTile& work, const CUtensorMap& map, unsigned char* to,
                             ptx::Barrier& full) const {
    if (Target::lane() != 0) return;
    const semantics::Place place = semantics::unpaged_key_place(p_.common.call, work.sequence,
                                                                Index{work.key_tile} * config.keys);
    full.arrive_and_expect(Keys::bytes);
    hopper::load_tile<Keys>(map, to, full, 0, static_cast<int>(place.row), work.kv_head,
                            static_cast<int>(place.outer));
  }

  // A key that no query sees may hold anything, and dS of zero would not make it vanish from dS K.
  RAPT_DEVICE bool is_unseen(const WorkTile& work, int row) const {
    const Index key = Index{work.key_tile} * config.keys + row;
    return key >= work.sequence.kv_len ||
           semantics::is_empty(semantics::queries_of_keys(
               p_.common.call.window, key, key, work.sequence.q_len, work.sequence.offset));
  }
  RAPT_DEVICE bool has_unseen_rows(const WorkTile& work) const {
    bool any = false;
    for (int row = Target::lane(); row < config.keys; row += 32) any |= is_unseen(work, row);
    return any;
  }

  RAPT_DEVICE void load_dout(const Source& from, int step) {
    load(from, step, p_.dout, shared_.douts, shared_.dout_ring, p_.rows.deltas, shared_.deltas);
  }

  // Queries or dout, and a number of each row. Rows behind the end of a packed sequence are
  // another's: they are cleared. What lies behind the tensor's end comes as zeros.
  template <int stages>
  RAPT_DEVICE void load(const Source& from, int step, const CUtensorMap& map,
                        unsigned char (&tiles)[stages][Queries::bytes], hopper::Ring<stages>& ring,
                        const float* numbers, float (&to)[stages][config.queries]) {
    const hopper::PipelineState<stages> pipe(step);
    ring.wait_free(pipe);
    const bool clean = !p_.common.call.q_starts || from.left >= config.queries;
    ptx::Barrier& full = ring.full[pipe.index];
    ptx::Barrier& heard = clean ? full : shared_.landed;
    if (Target::lane() == 0) {
      constexpr int number_bytes = config.queries * 4;
      heard.arrive_and_expect(Queries::bytes + number_bytes);
      hopper::load_tile<Queries>(map, tiles[pipe.index], heard, 0, from.row, from.head, from.outer);
      ptx::bulk_load(to[pipe.index], numbers + from.own_rows, number_bytes, heard);
    }
    if (clean) return;
    clear_landed<Queries>(tiles[pipe.index], full, [&](int row) { return row >= from.left; });
  }

  // Clears rows of a tile as soon as it has landed; then it is full.
  template <class Tile, class IsCleared>
  RAPT_DEVICE void clear_landed(unsigned char* tile, ptx::Barrier& full, IsCleared is_cleared) {
    shared_.landed.wait(landed_phase_);
    landed_phase_ ^= 1;
    for (int i = Target::lane(); i < Tile::bytes / 16; i += 32) {
      const int row = i * 16 / hopper::panel_row_bytes % Tile::rows;
      if (is_cleared(row)) reinterpret_cast<uint4*>(tile)[i] = make_uint4(0, 0, 0, 0);
    }
    ptx::fence_proxy_async();
    __syncwarp();
    if (Target::lane() == 0) full.arrive();
  }

  const Parameters& p_;
  SharedStorage<config>& shared_;
  uint32_t landed_phase_ = 0;
};

}  // namespace rapt::cuda::flash_wgmma_backward
