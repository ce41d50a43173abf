// The order of additions to a tile of dq: how many others add before a work tile does. It is that
// of the lockstep that schedule.cuh draws: laps follow each other; in a lap, who meets the tile in
// an earlier step comes first, and of those who do in the same step, the one at the lower position.
#pragma once

#include "src/cuda/flash_wgmma_backward/schedule.cuh"

namespace rapt::cuda::flash_wgmma_backward {

// Steps that a block needs from the last of a work tile to the first of the next.
inline constexpr int steps_between_work_tiles = 2;

// A key tile among those of a lap: when its block meets which tiles of queries.
struct Participant {
  QueryWalk walk;
  int start;  // steps that its member has made before

  // Steps of the lap before its step-th one along the group's head-th head.
  RAPT_DEVICE int time(int head, int step) const { return start + head * walk.count + step; }

  // Whether it, at `position`, adds to a tile that it meets before another of the lap does.
  RAPT_DEVICE bool adds_before(int position, int head, int tile, int other_position,
                               int other_time) const {
    const int own_time = time(head, walk.step_of(tile));
    return own_time < other_time || (own_time == other_time && position < other_position);
  }
};

// Those of a work tile's lap, by their positions.
template <TileConfig config>
class Lap {
 public:
  // `group` heads share the kv head.
  RAPT_DEVICE Lap(const Parameters& p, const WorkTile& work, int group)
      : p_(p),
        sequence_(work.sequence),
        number_(Turn(p.schedule, work.key_tile).lap),
        members_(p.schedule.members),
        group_(group) {}

  RAPT_DEVICE int participants() const { return 2 * members_; }
  RAPT_DEVICE QueryWalk walk(int position) const {
    return walk_of<config>(p_, sequence_, key_tile_at(p_.schedule, number_, position));
  }
  RAPT_DEVICE int start(int position) const {
    if (position < members_) return 0;
    return group_ * walk(2 * members_ - 1 - position).count + steps_between_work_tiles;
  }

 private:
  const Parameters& p_;
  const semantics::Sequence& sequence_;
  int number_, members_, group_;
};

// How many add to a tile of queries in the laps before one: all whose keys it sees.
template <TileConfig config>
RAPT_DEVICE int additions_of_earlier_laps(const Parameters& p, const semantics::Sequence& sequence,
                                          int lap, int tile) {
  if (lap == 0) return 0;
  const Index first = Index{tile} * config.queries;
  const Index last = semantics::smaller(first + config.queries, sequence.q_len) - 1;
  const semantics::Range keys = semantics::keys_of_some(
      p.common.call.window, first + sequence.offset, last + sequence.offset, sequence.kv_len);
  if (semantics::is_empty(keys)) return 0;
  const int laps = p.schedule.laps;
  const auto below = [&](Index key_tile) {
    const int at = static_cast<int>(key_tile);
    return at / laps * lap + (at % laps < lap ? at % laps : lap);
  };
  return below(semantics::divided_up(keys.end, Index{config.keys})) -
         below(keys.begin / config.keys);
}

}  // namespace rapt::cuda::flash_wgmma_backward
