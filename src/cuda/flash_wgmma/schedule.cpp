#include "src/cuda/flash_wgmma/schedule.hpp"

#include <algorithm>
#include <cmath>

#include "src/cuda/flash_wgmma/choose_tiles.hpp"

namespace rapt::cuda::flash_wgmma {
namespace {

// Of the L2 cache that the keys and values of an L2 group take.
constexpr double share_of_cache = 0.55;

// Query heads of a group that share a tile, where that leaves fewer rows empty: 1 or all of them.
int packed_heads(const Problem& p, const TileConfig& tiles) {
  const Index group = p.heads / p.kv_heads;
  if (group == 1 || group > rows_of_warpgroup) return 1;
  const auto filled = [&](Index packed) {
    const Index queries = tiles.warpgroups * (rows_of_warpgroup / packed);
    return double(p.q_len * packed) / double(semantics::rounded_up(p.q_len, queries) / queries *
                                             tiles.warpgroups * rows_of_warpgroup);
  };
  return filled(1) < 0.9 * filled(group) ? static_cast<int>(group) : 1;
}

}  // namespace

WorkTiles work_tiles_of(const Problem& p, const TileConfig& tiles) {
  WorkTiles work_tiles;
  work_tiles.packed_heads = packed_heads(p, tiles);
  work_tiles.queries = rows_of_warpgroup / work_tiles.packed_heads;
  work_tiles.tiles = semantics::divided_up(p.q_len, work_tiles.queries * tiles.warpgroups);
  work_tiles.heads = p.heads / work_tiles.packed_heads;
  work_tiles.pairs = work_tiles.heads * p.batch;
  work_tiles.varlen_tiles = p.varlen ? p.total_q / (work_tiles.queries * tiles.warpgroups) + p.batch
                                     : work_tiles.tiles * p.batch;
  return work_tiles;
}

Schedule schedule_of(const Problem& p, const TileConfig& tiles, const Device& device) {
  const WorkTiles work_tiles = work_tiles_of(p, tiles);
  const Index heads_per_kv_head = work_tiles.heads / p.kv_heads;
  const double kv_bytes = 2.0 * double(p.kv_len) * double(p.qk_dim + p.v_dim);
  const double cached =
      std::floor(device.nominal.cache_bytes * share_of_cache / std::max(kv_bytes, 1.0));
  const Index l2_group =
      gpu::is_uneven(p)
          ? std::clamp<Index>(static_cast<Index>(cached) * heads_per_kv_head, 1, work_tiles.pairs)
          : std::min(heads_per_kv_head, work_tiles.pairs);
  const Index rest = work_tiles.pairs % l2_group;
  return {
      .packed_heads = gpu::divisor(work_tiles.packed_heads),
      .heads = gpu::divisor(work_tiles.heads),
      .heads_per_kv_head = gpu::divisor(heads_per_kv_head),
      .first_l2_group = gpu::divisor(rest > 0 ? rest : l2_group),
      .l2_group = gpu::divisor(l2_group),
      .l2_group_tiles = gpu::divisor(work_tiles.in_one_row() ? 1 : l2_group * work_tiles.tiles),
      .tiles = static_cast<int>(work_tiles.tiles),
      .varlen_tiles = work_tiles.in_one_row() ? static_cast<int>(work_tiles.varlen_tiles) : 0,
      .queries = static_cast<int>(work_tiles.queries),
      .work_tiles = static_cast<int>(work_tiles.count()),
  };
}

}  // namespace rapt::cuda::flash_wgmma
