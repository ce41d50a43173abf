// Registers and shared memory of a block of flash_wgmma.
#pragma once

#include "src/cuda/flash_wgmma/tile_config.hpp"
#include "src/cuda/ptx/barrier.cuh"
#include "src/cuda/shared_memory.hpp"
#include "src/cuda/target.cuh"

namespace rapt::cuda::flash_wgmma {

inline constexpr int warpgroup_threads = 128, warpgroup_rows = 64;
inline constexpr int panel_columns = 64, panel_row_bytes = 128;

RAPT_HOST_DEVICE constexpr int panels(int dim) { return (dim + panel_columns - 1) / panel_columns; }
RAPT_HOST_DEVICE constexpr int tile_bytes(int rows, int dim) {
  return panels(dim) * rows * panel_row_bytes;
}

// Registers change hands in eights: a block starts with the same number for every thread, and the
// warpgroup that loads leaves what it can to those that compute.
inline constexpr int most_registers = 240;  // of a thread
RAPT_HOST_DEVICE constexpr int starting_registers(int warpgroups) {
  const int equal = 65536 / (warpgroups + 1) / warpgroup_threads / 8 * 8;
  return equal < most_registers ? equal : most_registers;
}
RAPT_HOST_DEVICE constexpr int producer_registers(int warpgroups) {
  return warpgroups == 2 ? 24 : 32;
}
RAPT_HOST_DEVICE constexpr int consumer_registers(int warpgroups) {
  const int left =
      starting_registers(warpgroups) * (warpgroups + 1) - producer_registers(warpgroups);
  const int equal = left / warpgroups / 8 * 8;
  return equal < most_registers ? equal : most_registers;
}

// A tile of queries, and the tiles of keys it meets, `tile` down to `first_tile`.
struct alignas(16) WorkTileInfo {
  int tile, first_tile;
  int left;      // queries from the first one to the end of the sequence; 0: there is no more work
  int position;  // of the first query among the keys
  int visible_begin,
      visible_end;      // keys that this query would see if there were any number: half-open
  int head;             // or group of packed heads
  int row, outer;       // where the first query lies: its Place
  int sequence, first;  // of the first query
  int kv_len, kv_head, key_row, key_outer;  // where the keys lie
  int seen_begin, seen_end;                 // keys that some query of the sequence sees
  // Of a warpgroup: whether it sees nothing of the first tile it comes to, though others do, and
  // which tiles all its rows see whole.
  struct {
    int skipped, unmasked_begin, unmasked_end;
  } of[3];
};
// Under a causal mask the last keys of a tile of queries are seen by its last warpgroup only.
// Whether they can fill a tile of keys, which the others then skip.
template <TileConfig config>
inline constexpr bool skips_tiles = config.keys <= warpgroup_rows*(config.warpgroups - 1);
// Whether output goes to TMA by way of shared memory: where queries were or, with three
// warpgroups, whose heads are small, to room of its own.
template <TileConfig config>
inline constexpr bool staged = config.query_buffers == 2;
template <TileConfig config>
inline constexpr bool staged_in_queries = staged<config>&& config.warpgroups < 3;
// They are read until the output is stored, when queries of later work tile tiles are there
// already.
inline constexpr int tile_info_stages = 8;

// Tiles are (rows, columns) in panels of 64 columns; see ptx::MatrixDescriptor.
template <TileConfig config>
struct SharedStorage {
  alignas(1024) unsigned char queries[config.query_buffers][config.warpgroups]
                                     [tile_bytes(warpgroup_rows, config.qk_dim)];
  alignas(
      1024) unsigned char staging[config.warpgroups][staged<config> && !staged_in_queries<config>
                                                         ? tile_bytes(warpgroup_rows, config.v_dim)
                                                         : 1];
  alignas(1024) unsigned char keys[config.stages][tile_bytes(config.keys, config.qk_dim)];
  alignas(1024) unsigned char values[config.stages][tile_bytes(config.keys, config.v_dim)];
  alignas(
      1024) unsigned char biases[config.warpgroups]
                                [config.score_mod ? tile_bytes(warpgroup_rows, config.keys) : 1];
  WorkTileInfo tile_infos[tile_info_stages];
  // By each warp that computes: 1 if it has some.
  int promoted_sums[config.warpgroups * 4];
  ptx::Barrier tile_info_wanted;  // one phase for each work tile
  ptx::Barrier tile_info_full[tile_info_stages];
  // A tile is full when it has come, and free when every computing warp is done with it; one of
  // queries where output goes, when that has been stored for every warpgroup.
  ptx::Barrier queries_full[config.query_buffers], queries_free[config.query_buffers];
  ptx::Barrier keys_full[config.stages], keys_free[config.stages];
  ptx::Barrier values_full[config.stages], values_free[config.stages];
  ptx::Barrier biases_full[config.warpgroups], biases_free[config.warpgroups];
  // A phase for each work tile's output, and one before the first.
  ptx::Barrier output_full[config.warpgroups], output_free[config.warpgroups];
  ptx::Barrier values_landed;  // but not yet cleared of what nobody may see
};

// Where the number-th of things that take turns in `count` buffers lies. Numbers count from 0 on.
template <int count>
RAPT_DEVICE int ring_index(int number) {
  return static_cast<int>(static_cast<uint32_t>(number) % count);
}
// And the parity of its barriers' phase.
template <int count>
struct PipelineState {
  int index;
  uint32_t phase;
  RAPT_DEVICE explicit PipelineState(int number)
      : index(ring_index<count>(number)), phase(static_cast<uint32_t>(number) / count & 1) {}
};

// The buffer for the output of the work tile before this one: that of its own queries, whose scores
// are all there, or of this one's, if those are in registers already.
template <TileConfig config>
RAPT_DEVICE int staging_buffer(int work_tile) {
  return ring_index<config.query_buffers>(config.q_in_registers ? work_tile : work_tile - 1);
}
template <TileConfig config>
RAPT_DEVICE unsigned char* staging(SharedStorage<config>& shared, int group, int work_tile) {
  if constexpr (staged_in_queries<config>)
    return shared.queries[staging_buffer<config>(work_tile)][group];
  return shared.staging[group];
}

// Where the lane's row of 16 bytes lies in a warp's fragment of 16 × 16, from `column` of the tile
// on: matrices of 8 × 8, for which lanes 8 i … 8 i + 7 name the rows of the i-th; the second lies
// below the first, the next two beside them. `tile` is a warpgroup's, from the warp's first row on.
RAPT_DEVICE uint32_t fragment_address(const unsigned char* tile, int column) {
  const int lane = Target::lane(), row = lane % 16;
  const int panel = column / panel_columns, piece = column % panel_columns / 8 + lane / 16;
  return ptx::shared_address(tile) + (panel * warpgroup_rows + row) * panel_row_bytes +
         (piece ^ row % 8) * 16;
}

}  // namespace rapt::cuda::flash_wgmma
