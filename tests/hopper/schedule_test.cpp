// The schedule of flash_wgmma_backward, whose blocks have to agree on it without a word: on who
// takes which tiles of keys, and on the order in which they add to a tile of dq. With as many
// multiprocessors as chips have, where the model of one has a few.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "src/core/call.hpp"
#include "src/core/text.hpp"
#include "src/cuda/flash_wgmma_backward/order.cuh"
#include "src/cuda/flash_wgmma_backward/plan_schedule.hpp"
#include "src/portable/common.hpp"
#include "src/verify/random.hpp"

namespace rapt::test {
namespace {

using namespace cuda::flash_wgmma_backward;

constexpr TileConfig tiles = tiles_128;
constexpr int multiprocessors = 132;

// A batch within a problem's bounds; what it has none of is empty.
struct Batch {
  Problem problem;
  std::vector<std::int32_t> q_starts = {}, kv_starts = {}, kv_lengths = {};
};

// What the schedule and the order follow from, on a chip of so many multiprocessors.
template <TileConfig config>
Parameters parameters_of(const Batch& batch, int chip) {
  Parameters p = {};
  semantics::Call& call = p.common.call;
  call = planned_call(batch.problem);
  call.batch = batch.problem.batch;
  call.total_q = batch.problem.total_q;
  call.total_kv = batch.problem.total_kv;
  if (batch.problem.varlen) {
    call.total_q = batch.q_starts.back();
    call.total_kv = batch.kv_starts.back();
    call.q_len = std::min(call.q_len, call.total_q);
    call.q_starts = batch.q_starts.data();
    call.kv_starts = batch.kv_starts.data();
  }
  if (batch.problem.lengths) call.kv_lengths = batch.kv_lengths.data();
  p.schedule = plan_schedule(gpu::problem_of_run(batch.problem, call), config, chip);
  return p;
}

// By blocks, one after another. Every tile of keys is somebody's, once.
template <TileConfig config>
std::vector<std::vector<WorkTile>> work_of_blocks(const Parameters& p) {
  std::vector<std::vector<WorkTile>> blocks;
  std::set<std::tuple<Index, int, int>> met;
  for (int block = 0; block < p.schedule.teams * p.schedule.members; ++block) {
    blockIdx.x = static_cast<unsigned>(block);
    std::vector<WorkTile>& taken = blocks.emplace_back();
    WorkTile work;
    for (WorkTiles<config> all(p); all.next(work);) {
      taken.push_back(work);
      EXPECT_TRUE(met.insert({work.sequence.index, work.kv_head, work.key_tile}).second)
          << "a tile of keys is somebody else's too";
    }
  }
  const semantics::Call& call = p.common.call;
  Index wanted = 0;
  for (Index i = 0; i < call.batch; ++i) {
    const Index keys = semantics::stored_keys(call, semantics::sequence(call, i));
    wanted += semantics::divided_up(keys, config.keys) * call.kv_heads;
  }
  EXPECT_EQ(met.size(), wanted);
  return blocks;
}

std::vector<int> steps_of_blocks(const Batch& batch) {
  std::vector<int> steps;
  for (const auto& block : work_of_blocks<tiles>(parameters_of<tiles>(batch, multiprocessors)))
    steps.push_back(
        std::accumulate(block.begin(), block.end(), 0,
                        [](int sum, const WorkTile& work) { return sum + work.walk.count; }));
  return steps;
}

TEST(HopperSchedule, ShortSequencesWithinALargeBoundKeepAllBlocksBusy) {
  for (const auto& [text, length] :
       {std::pair{"b64 h16 s2048 d128 bf16 causal varlen backward", 256},
        std::pair{"b64 h16 s2048 d128 bf16 varlen backward", 256},
        std::pair{"b32 h8 s4096 d128 bf16 causal varlen backward", 512}}) {
    const Problem problem = Problem::parse(text);
    std::vector<std::int32_t> starts(static_cast<std::size_t>(problem.batch) + 1);
    for (std::size_t i = 0; i < starts.size(); ++i)
      starts[i] = static_cast<std::int32_t>(i) * length;
    const std::vector<int> steps =
        steps_of_blocks({.problem = problem, .q_starts = starts, .kv_starts = starts});
    const double average = std::accumulate(steps.begin(), steps.end(), 0.0) / multiprocessors;
    EXPECT_LE(*std::ranges::max_element(steps), 1.3 * average) << text;
  }
}

TEST(HopperSchedule, ATeamOfAnInvariantProblemDoesNotDependOnTheBatch) {
  const auto members = [](const char* text) {
    const Schedule schedule = plan_schedule(Problem::parse(text), tiles, multiprocessors);
    return std::pair{schedule.members, schedule.laps};
  };
  const auto one = members("b1 h4 s4096 d128 bf16 causal backward batch-invariant");
  EXPECT_EQ(one, members("b64 h4 s4096 d128 bf16 causal backward batch-invariant"));
  EXPECT_GT(one.first, 1);
  EXPECT_EQ(members("b64 h4 s4096 d128 bf16 causal varlen backward batch-invariant").first, 1);
}

// A block's addition: its counter, one of dq's tile for each of a warpgroup's parts, and how many
// are made there before.
struct Addition {
  std::size_t counter;
  int order;
};
using Additions = std::vector<std::vector<Addition>>;  // by blocks, in each one's own order

// As storers make them.
template <TileConfig config>
Additions additions_of_blocks(const Parameters& p) {
  const semantics::Call& call = p.common.call;
  const int group = static_cast<int>(call.heads / call.kv_heads);
  Additions blocks;
  std::vector<Participant> participants;
  for (const auto& block : work_of_blocks<config>(p)) {
    std::vector<Addition>& additions = blocks.emplace_back();
    for (const WorkTile& work : block) {
      const Lap<config> lap(p, work, group);
      const Turn turn(p.schedule, work.key_tile);
      participants.clear();
      for (int i = 0; i < lap.participants(); ++i)
        participants.push_back({lap.walk(i), lap.start(i)});
      for (int head = 0; head < group; ++head) {
        const Index row = work.sequence.index * call.heads + work.kv_head * group + head;
        for (int step = 0; step < work.walk.count; ++step) {
          const int tile = work.walk.tile(step);
          const int time = participants[static_cast<std::size_t>(turn.position)].time(head, step);
          int order = additions_of_earlier_laps<config>(p, work.sequence, turn.lap, tile);
          for (int i = 0; i < lap.participants(); ++i) {
            const Participant& other = participants[static_cast<std::size_t>(i)];
            order +=
                other.walk.meets(tile) && other.adds_before(i, head, tile, turn.position, time);
          }
          constexpr int parts = config.parts_of_warpgroup();
          for (int part = 0; part < parts; ++part)
            additions.push_back(
                {static_cast<std::size_t>((row * p.schedule.query_tiles + tile) * parts + part),
                 order});
        }
      }
    }
  }
  return blocks;
}

// How many there are at each counter: one for each tile of keys that the tile's queries see.
template <TileConfig config>
std::vector<int> additions_of_counters(const Parameters& p) {
  const semantics::Call& call = p.common.call;
  std::vector<int> result;
  for (Index i = 0; i < call.batch; ++i) {
    const semantics::Sequence sequence = semantics::sequence(call, i);
    for (Index head = 0; head < call.heads; ++head) {
      for (int tile = 0; tile < p.schedule.query_tiles; ++tile) {
        const bool exists = Index{tile} * config.queries < sequence.q_len;
        result.insert(
            result.end(), config.parts_of_warpgroup(),
            exists ? additions_of_earlier_laps<config>(p, sequence, p.schedule.laps, tile) : 0);
      }
    }
  }
  return result;
}

// The first counter whose additions are not the 0th, the 1st and so on; empty if there is none.
std::string fault_of_order(const Additions& blocks, const std::vector<int>& wanted) {
  std::vector<std::vector<int>> orders(wanted.size());
  for (const auto& block : blocks)
    for (const Addition& addition : block) orders.at(addition.counter).push_back(addition.order);
  for (std::size_t counter = 0; counter < wanted.size(); ++counter) {
    std::vector<int>& found = orders[counter];
    if (found.size() != static_cast<std::size_t>(wanted[counter]))
      return text("counter ", counter, " has ", found.size(), " additions instead of ",
                  wanted[counter]);
    std::ranges::sort(found);
    for (int i = 0; i < wanted[counter]; ++i)
      if (const int order = found[static_cast<std::size_t>(i)]; order != i)
        return text("of the additions at counter ", counter, ", number ", i, " has order ", order);
  }
  return "";
}

// A block's additions as they are made. What lies in a buffer waits for its turn, and what needs
// the buffer next, with all behind it, for that.
class Storers {
 public:
  Storers(const std::vector<Addition>& additions, int buffers)
      : additions_(additions),
        buffers_(static_cast<std::size_t>(buffers)),
        made_(additions.size()) {}

  // The first that is not made; null at the end.
  const Addition* next() const {
    return first_ < additions_.size() ? &additions_[first_] : nullptr;
  }
  // Makes what can be made now, and says whether there was anything.
  bool go_on(std::vector<int>& counters) {
    bool any = false;
    const std::size_t end = std::min(first_ + buffers_, additions_.size());
    for (std::size_t i = first_; i < end; ++i) {
      if (made_[i] || counters[additions_[i].counter] < additions_[i].order) continue;
      ++counters[additions_[i].counter];
      made_[i] = any = true;
    }
    while (next() && made_[first_]) ++first_;
    return any;
  }

 private:
  const std::vector<Addition>& additions_;
  const std::size_t buffers_;
  std::vector<bool> made_;
  std::size_t first_ = 0;
};

// The first block that waits for ever, where all are on the chip at once; empty if there is none.
std::string fault_of_waiting(const Additions& blocks, int buffers, std::size_t all_counters) {
  std::vector<int> counters(all_counters);
  std::vector<Storers> all;
  for (const auto& block : blocks) all.emplace_back(block, buffers);
  for (bool any = true; any;) {
    any = false;
    for (Storers& storers : all)
      while (storers.go_on(counters)) any = true;
  }
  for (std::size_t block = 0; block < all.size(); ++block)
    if (const Addition* next = all[block].next())
      return text("block ", block, " waits for ", next->order, " additions at counter ",
                  next->counter, ", and ", counters[next->counter], " are made");
  return "";
}

template <TileConfig config>
void expect_order(const Problem& problem, const Parameters& p, int chip) {
  const Schedule& schedule = p.schedule;
  SCOPED_TRACE(text(problem.to_string(), ": ", schedule.teams, " teams of ", schedule.members,
                    " on ", chip, " multiprocessors, ", schedule.laps, " laps, tiles of ",
                    config.queries, " queries"));
  EXPECT_LE(schedule.teams * schedule.members, chip) << "not all blocks are there at once";
  const Additions blocks = additions_of_blocks<config>(p);
  const std::vector<int> wanted = additions_of_counters<config>(p);
  EXPECT_EQ(fault_of_order(blocks, wanted), "");
  EXPECT_EQ(fault_of_waiting(blocks, std::min(config.storers, config.dq_buffers), wanted.size()),
            "");
}

// Up to some hundred tiles of keys, and as many sequences and heads as are quick.
Batch draw_batch(verify::Random& random) {
  const auto length = [&](std::int64_t most) { return random.between(1, most); };
  const std::int64_t keys = length(random.one_of<std::int64_t>({300, 2000, 8000, 30000}));
  const std::int64_t queries = random.chance(0.3) && keys < 5000
                                   ? keys
                                   : length(random.one_of<std::int64_t>({200, 1000, 5000}));
  const std::int64_t group = random.one_of<std::int64_t>({1, 1, 2, 3});
  const std::int64_t steps = group * (queries / 64 + 1) * (keys / 128 + 1);
  const std::int64_t pairs = std::clamp<std::int64_t>(length(30000) / steps, 1, 300);
  const std::int64_t kv_heads = std::min(length(4), pairs), sequences = pairs / kv_heads;

  std::string problem = text("b", sequences, " h", kv_heads * group, "/", kv_heads, " q", queries,
                             " kv", keys, " d64 bf16 backward");
  switch (random.below(6)) {
    case 0: problem += " causal"; break;
    case 1: problem += text(" causal window", length(3000) - 1); break;
    case 2: problem += text(" window", length(keys), ":", length(2000)); break;
    case 3: problem += text(" window", length(keys)); break;
    case 4: problem += text(" window:", length(2000)); break;
    default: break;
  }
  if (random.chance(0.4)) problem += text(" offset", random.between(-queries, keys));
  if (random.chance(0.3)) problem += " varlen";
  if (random.chance(0.3)) problem += " kv_lengths";
  if (random.chance(0.2)) problem += " batch-invariant";

  Batch batch = {.problem = Problem::parse(problem), .q_starts = {0}, .kv_starts = {0}};
  const auto up_to = [&](std::int64_t most) {
    return static_cast<std::int32_t>(random.chance(0.3) ? most : random.between(0, most));
  };
  for (std::int64_t i = 0; i < sequences; ++i) {
    batch.q_starts.push_back(batch.q_starts.back() + up_to(queries));
    batch.kv_starts.push_back(batch.kv_starts.back() + up_to(keys));
    batch.kv_lengths.push_back(up_to(keys));
  }
  return batch;
}

// Any members and laps that are enough for the tiles of keys, whatever plan_schedule() prefers.
void draw_teams(verify::Random& random, Schedule& schedule, int chip) {
  schedule.members = static_cast<int>(random.between(1, std::min(most_members, chip)));
  schedule.laps = static_cast<int>(semantics::divided_up(schedule.key_tiles, 2 * schedule.members) +
                                   random.below(2));
  schedule.teams = std::min(chip / schedule.members, schedule.pairs);
}

template <TileConfig config>
void expect_order_of_random(std::uint64_t seed) {
  verify::Random random(seed);
  const Batch batch = draw_batch(random);
  const int chip = random.chance(0.6) ? multiprocessors : static_cast<int>(random.between(1, 160));
  Parameters p = parameters_of<config>(batch, chip);
  if (random.chance(0.3)) draw_teams(random, p.schedule, chip);
  expect_order<config>(batch.problem, p, chip);
}

TEST(HopperSchedule, AdditionsOfAWholeChipFollowEachOtherAndNobodyWaitsForEver) {
  for (const char* text :
       {"b2 h4 s8192 d128 bf16 backward", "b2 h4 s8192 d128 bf16 causal backward",
        "b1 h2 s20000 d128 bf16 causal backward", "b4 h8/2 s2048 d128 bf16 causal backward",
        "b1 h4/1 q1000 kv17000 d128 bf16 window1000:300 backward",
        "b1 h2/1 q2000 kv28000 d128 bf16 window15000 backward"}) {
    const Batch batch = {Problem::parse(text)};
    expect_order<tiles>(batch.problem, parameters_of<tiles>(batch, multiprocessors),
                        multiprocessors);
  }
  for (std::uint64_t seed = 1; seed <= 150 && !HasFailure(); ++seed) {
    expect_order_of_random<tiles_64>(seed);
    expect_order_of_random<tiles_128>(seed);
    expect_order_of_random<tiles_192>(seed);
    expect_order_of_random<tiles_256>(seed);
  }
}

}  // namespace
}  // namespace rapt::test
