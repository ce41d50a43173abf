// Who does what, in which order: what makes sums into dq the same on every run, and lets nobody
// wait.
//
// A work tile is a tile of keys of one sequence and kv head; its block walks over the tiles of
// queries that see it, of every head of the group, and adds to dq's tiles as it goes. `members`
// blocks make a team and take the key tiles of one (sequence, kv head) pair in laps, there and
// back, so that under a causal mask a lap is as long for all. With two laps:
//
//   member               0     1     2     3
//   lap 0, there    tile 0     2     4     6        long under a causal mask … short
//   lap 0, back         14    12    10     8        short … long
//   lap 1, there         1     3     5     7
//   lap 1, back         15    13    11     9
//
// In a lockstep of all members, step after step, every dq tile is met by one member after another,
// some steps apart: under a mask because their first tiles of queries are as far apart, on the way
// back by walking backwards; where a tile of keys is seen from the first query on, because they
// begin at different ones. That lockstep, ties by the position in the lap, *is* the order of
// additions (order.cuh): a block that keeps pace finds its turn come. Laps follow each other. From
// pair to pair of a team its members change places, since short sequences have work for the first
// of them alone.
#pragma once

#include "src/cuda/flash_wgmma_backward/parameters.hpp"
#include "src/cuda/target.cuh"

namespace rapt::cuda::flash_wgmma_backward {

using semantics::Index;

// The tiles of queries that see a tile of keys, in the order in which its block meets them, for
// each head.
struct QueryWalk {
  int begin = 0, count = 0;
  int shift = 0;  // where it begins
  bool backwards = false;

  RAPT_DEVICE int tile(int step) const {
    if (backwards) return begin + count - 1 - step;
    const int at = shift + step;
    return begin + (at < count ? at : at - count);
  }
  RAPT_DEVICE int step_of(int tile) const {
    if (backwards) return begin + count - 1 - tile;
    const int at = tile - begin - shift;
    return at < 0 ? at + count : at;
  }
  RAPT_DEVICE bool meets(int tile) const { return tile >= begin && tile < begin + count; }
};

// Where a key tile comes in a lap: positions 0 to members − 1 on the way there, the others back.
struct Turn {
  int lap, position;
  RAPT_DEVICE Turn(const Schedule& schedule, int key_tile)
      : lap(key_tile % schedule.laps), position(key_tile / schedule.laps) {}
  RAPT_DEVICE bool is_back(const Schedule& schedule) const { return position >= schedule.members; }
  RAPT_DEVICE int member(const Schedule& schedule) const {
    return is_back(schedule) ? 2 * schedule.members - 1 - position : position;
  }
};
RAPT_DEVICE int key_tile_at(const Schedule& schedule, int lap, int position) {
  return position * schedule.laps + lap;
}

template <TileConfig config>
RAPT_DEVICE QueryWalk walk_of(const Parameters& p, const semantics::Sequence& sequence,
                              int key_tile) {
  const semantics::Window& window = p.common.call.window;
  const Index first = Index{key_tile} * config.keys;
  if (first >= sequence.kv_len) return {};
  const Index last = semantics::smaller(first + config.keys, sequence.kv_len) - 1;
  const semantics::Range queries =
      semantics::queries_of_keys(window, first, last, sequence.q_len, sequence.offset);
  if (semantics::is_empty(queries)) return {};
  QueryWalk walk;
  walk.begin = static_cast<int>(queries.begin / config.queries);
  walk.count =
      static_cast<int>(semantics::divided_up(queries.end, Index{config.queries})) - walk.begin;
  const Turn turn(p.schedule, key_tile);
  if (window.has_right && walk.begin > 0)
    walk.backwards = turn.is_back(p.schedule);
  else
    walk.shift = turn.member(p.schedule) * walk.count / p.schedule.members;
  return walk;
}

struct WorkTile {
  semantics::Sequence sequence;
  int kv_head, key_tile;
  QueryWalk walk;
};

// The work tiles of a block, one after another. All its warps go through them alike.
template <TileConfig config>
class WorkTiles {
 public:
  RAPT_DEVICE explicit WorkTiles(const Parameters& p)
      : p_(p),
        pair_(Target::block_x() / p.schedule.members),
        member_(Target::block_x() % p.schedule.members) {}

  // False if there are no more.
  RAPT_DEVICE bool next(WorkTile& work) {
    const semantics::Call& call = p_.common.call;
    while (pair_ < p_.schedule.pairs) {
      const int index = p_.schedule.kv_heads.quotient(pair_);
      work.sequence = semantics::sequence(call, index);
      work.kv_head = pair_ - index * p_.schedule.kv_heads.value;
      const int members = p_.schedule.members;
      const int member = (member_ + pair_ / p_.schedule.teams) % members;
      work.key_tile =
          key_tile_at(p_.schedule, round_ / 2, round_ % 2 == 0 ? member : 2 * members - 1 - member);
      if (++round_ == 2 * p_.schedule.laps) {
        round_ = 0;
        pair_ += p_.schedule.teams;
      }
      if (Index{work.key_tile} * config.keys >= semantics::stored_keys(call, work.sequence))
        continue;
      work.walk = walk_of<config>(p_, work.sequence, work.key_tile);
      return true;
    }
    return false;
  }

 private:
  const Parameters& p_;
  int pair_, member_, round_ = 0;  // there, and back, of every lap
};

}  // namespace rapt::cuda::flash_wgmma_backward
