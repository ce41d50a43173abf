#include "src/cuda/flash_wgmma_backward/plan_schedule.hpp"

#include <algorithm>

namespace rapt::cuda::flash_wgmma_backward {
namespace {

using gpu::Index;
using semantics::divided_up;

// Steps that pass from one addition to a tile of dq to the next one, at least: that the first is
// made, that it is heard of, and some room for blocks that do not keep pace.
constexpr double steps_between_additions = 2;
// What a work tile costs besides its steps, in steps: the first loads, and storing dk and dv.
constexpr double steps_of_work_tile = 2;

// Steps that a pair takes a team. Under a right bound the walk of a key tile is as short as the
// tile is far behind, and a lap, there and back, is as long for all members.
double steps_of_pair(const Schedule& schedule, bool has_right) {
  const double all = schedule.query_tiles, members = schedule.members;
  const double rounds = divided_up(schedule.key_tiles, schedule.members);
  if (!has_right) {
    const double additions = rounds * members * steps_between_additions;  // to a tile
    return std::max(rounds * (all + steps_of_work_tile), additions);
  }
  const double apart = all / schedule.key_tiles * schedule.laps;  // members, by their first steps
  const double pace = std::max(1.0, steps_between_additions / apart);
  const double lap = rounds > 1 ? all + all / schedule.key_tiles : all;
  return schedule.laps * lap * pace + rounds * steps_of_work_tile;
}

}  // namespace

Schedule plan_schedule(const Problem& p, const TileConfig& tiles, int multiprocessors) {
  constexpr int most_laps = 8;
  const auto key_tiles = static_cast<int>(std::max<Index>(divided_up(p.kv_len, tiles.keys), 1));
  Schedule best = {.members = 1,
                   .laps = key_tiles,
                   .teams = 1,
                   .pairs = static_cast<int>(p.batch * p.kv_heads),
                   .query_tiles = static_cast<int>(divided_up(p.q_len, tiles.queries)),
                   .key_tiles = key_tiles,
                   .kv_heads = gpu::divisor(std::max<Index>(p.kv_heads, 1))};
  best.teams = std::max(1, std::min(multiprocessors, best.pairs));
  // The order of additions follows from the members of a team: where bits must not depend on the
  // batch, they are chosen for one sequence, and are one where its lengths are bounds.
  if (best.pairs == 0 || best.query_tiles == 0 || (p.batch_invariant && p.bounded())) return best;
  const int weighed_pairs = p.batch_invariant ? static_cast<int>(p.kv_heads) : best.pairs;
  const int most = std::min(most_members, multiprocessors);
  double least = 0;
  const auto consider = [&](int members, int laps) {
    Schedule tried = best;
    tried.members = members;
    tried.laps = laps;
    tried.teams = std::min(multiprocessors / members, tried.pairs);
    const double turns =
        divided_up(weighed_pairs, std::min(multiprocessors / members, weighed_pairs));
    const double steps = turns * steps_of_pair(tried, p.window.right.has_value());
    if (least != 0 && steps >= least) return;
    least = steps;
    best = tried;
  };
  if (key_tiles <= most) consider(key_tiles, 1);  // no way back
  const int fewest_laps = (key_tiles + 2 * most - 1) / (2 * most);
  for (int laps = fewest_laps; laps < fewest_laps + most_laps && 2 * laps <= key_tiles + 1; ++laps)
    consider((key_tiles + 2 * laps - 1) / (2 * laps), laps);
  return best;
}

}  // namespace rapt::cuda::flash_wgmma_backward
