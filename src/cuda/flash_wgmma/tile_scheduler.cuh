// Which tiles of queries a block takes, in which order, and what its warps need to know of each.
#pragma once

#include "src/cuda/flash_wgmma/shared_storage.cuh"

namespace rapt::cuda::flash_wgmma {

// A tile of queries from `first` on, of one sequence. Heads are numbered in groups of packed ones.
struct WorkTile {
  semantics::Sequence sequence;
  int head, first;
};

// The number of a sequence's first tile, where all are numbered one after another. Each sequence
// has at least one more than its queries fill, so that where it begins does not depend on how the
// queries before it are shared out. A start that is wrong is brought into the tensor, as
// semantics::sequence() does: no tile begins before its sequence.
RAPT_DEVICE int first_varlen_tile(const Parameters& p, int sequence, int queries) {
  if (sequence == 0) return 0;
  const Index start = semantics::clamp(p.call.q_starts[sequence], 0, p.call.total_q);
  return static_cast<int>(start) / queries + sequence;
}
RAPT_DEVICE WorkTile varlen_work_tile(const Parameters& p, int number, int head, int queries) {
  int sequence = 0, end = static_cast<int>(p.call.batch);
  while (end - sequence > 1) {
    const int middle = sequence + (end - sequence) / 2;
    (first_varlen_tile(p, middle, queries) <= number ? sequence : end) = middle;
  }
  return {semantics::sequence(p.call, sequence), head,
          (number - first_varlen_tile(p, sequence, queries)) * queries};
}

RAPT_DEVICE WorkTile work_tile_at(const Parameters& p, int index, int queries) {
  const Schedule& s = p.schedule;
  if (s.varlen_tiles > 0) {
    const int before = s.heads.quotient(index);
    return varlen_work_tile(p, s.varlen_tiles - 1 - before, index - before * s.heads.value,
                            queries);
  }
  const int after_first = index - s.first_l2_group.value * s.tiles;
  int first = 0,
      within = index;  // the L2 group's first pair, and the work tile's place in the L2 group
  gpu::Divisor heads = s.first_l2_group;
  if (after_first >= 0) {
    const int l2_group = s.l2_group_tiles.quotient(after_first);
    first = s.first_l2_group.value + l2_group * s.l2_group.value;
    within = after_first - l2_group * s.l2_group_tiles.value;
    heads = s.l2_group;
  }
  const int level = heads.quotient(within);
  const int pair = first + within - level * heads.value;
  const int sequence = s.heads.quotient(pair);
  return {semantics::sequence(p.call, sequence), pair - sequence * s.heads.value,
          (s.tiles - 1 - level) * queries};
}

// A position far outside the keys comes nearer, so that 32 bits have room for its distance to any:
// keys may lie as far as most_length on the other side.
RAPT_DEVICE int within_lengths(Index position) {
  return static_cast<int>(semantics::clamp(position, -most_length / 2, most_length));
}

// Tiles of keys get their numbers, where there may be two ranges.
RAPT_DEVICE void leave_out_gap(const semantics::KeyRanges& seen, int keys, WorkTileInfo& info) {
  if (semantics::is_empty(seen.first)) return;
  const semantics::KeyTiles tiles = semantics::key_tiles(seen, keys);
  info.first_tile = 0;
  info.tile = static_cast<int>(tiles.count) - 1;
  info.leading = static_cast<int>(tiles.leading);
  info.gap = static_cast<int>(tiles.skipped);
}

template <bool may_have_gap>
RAPT_DEVICE WorkTileInfo tile_info_of(const Parameters& p, const WorkTile& work_tile,
                                      int warpgroups, int keys) {
  const semantics::Sequence& sequence = work_tile.sequence;
  const int queries = warpgroups * p.schedule.queries;
  const Index left = sequence.q_len - work_tile.first, position = work_tile.first + sequence.offset;
  const semantics::Range some = semantics::keys_of_some(
      p.call.window, position, position + semantics::smaller(queries, left) - 1, sequence.kv_len);
  const semantics::Range seen = semantics::keys_of_some(
      p.call.window, sequence.offset, sequence.offset + sequence.q_len - 1, sequence.kv_len);
  const semantics::Place query = semantics::query_place(p.call, sequence, work_tile.first);
  const semantics::Place key =
      p.call.page_table ? semantics::Place{} : semantics::key_place(p.call, sequence, 0);
  const int first_tile = static_cast<int>(some.begin) / keys;
  WorkTileInfo tile_info = {
      .tile = some.begin < some.end ? (static_cast<int>(some.end) - 1) / keys : first_tile,
      .first_tile = first_tile,
      .left = static_cast<int>(left),
      .position = static_cast<int>(position),
      .visible_begin =
          within_lengths(p.call.window.has_left ? position - p.call.window.left : -most_length),
      .visible_end = within_lengths(p.call.window.has_right ? position + p.call.window.right + 1
                                                            : most_length),
      .head = work_tile.head,
      .row = static_cast<int>(query.row),
      .outer = static_cast<int>(query.outer),
      .sequence = static_cast<int>(sequence.index),
      .first = work_tile.first,
      .kv_len = static_cast<int>(sequence.kv_len),
      .kv_head = p.schedule.heads_per_kv_head.quotient(work_tile.head),
      .key_row = static_cast<int>(key.row),
      .key_outer = static_cast<int>(key.outer),
      .seen_begin = static_cast<int>(seen.begin),
      .seen_end = static_cast<int>(seen.end),
  };
  if constexpr (may_have_gap) {
    leave_out_gap(semantics::visible_to_some(p.call.window, position,
                                             position + semantics::smaller(queries, left) - 1,
                                             sequence.kv_len),
                  keys, tile_info);
  }
  for (int group = 0; group < warpgroups; ++group) {
    const Index first = position + group * p.schedule.queries;
    const Index last = first + p.schedule.queries - 1;
    const semantics::Range any =
        semantics::keys_of_some(p.call.window, first, last, sequence.kv_len);
    const semantics::Range all =
        semantics::keys_of_all(p.call.window, first, last, sequence.kv_len);
    tile_info.of[group] = {
        .skipped = tile_info.tile > first_tile && any.end <= Index{tile_info.tile} * keys,
        .unmasked_begin = (static_cast<int>(all.begin) + keys - 1) / keys,
        .unmasked_end = static_cast<int>(all.end) / keys,
    };
    if constexpr (may_have_gap) {
      const int behind = tile_info.leading + tile_info.gap;
      auto& of = tile_info.of[group];
      of.skipped = tile_info.tile > tile_info.first_tile &&
                   any.end <= Index{tile_info.key_tile(tile_info.tile)} * keys;
      of.unmasked_begin = max(of.unmasked_begin, behind) - tile_info.gap;
      of.unmasked_end = max(of.unmasked_end, behind) - tile_info.gap;
    }
  }
  return tile_info;
}

// What the thread does that decides which work tiles the block takes.
template <TileConfig config>
RAPT_DEVICE void schedule_tiles(const Parameters& p, SharedStorage<config>& shared) {
  hopper::schedule_tiles(
      shared.tile_infos, shared.tile_info_ring, p.schedule.work_tiles, p.tile_counter,
      [&](int index, WorkTileInfo& info) {
        const WorkTile work_tile = work_tile_at(p, index, config.warpgroups * p.schedule.queries);
        if (work_tile.first >= work_tile.sequence.q_len) return false;  // a shorter sequence
        info = tile_info_of<config.score_mod>(p, work_tile, config.warpgroups, config.keys);
        return true;
      });
}

}  // namespace rapt::cuda::flash_wgmma
