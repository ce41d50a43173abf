// The schedule of flash_wgmma_backward, whose blocks have to agree on it without a word.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>
#include <vector>

#include "src/core/call.hpp"
#include "src/cuda/flash_wgmma_backward/plan_schedule.hpp"
#include "src/cuda/flash_wgmma_backward/schedule.cuh"

namespace rapt::test {
namespace {

using namespace cuda::flash_wgmma_backward;

constexpr TileConfig tiles = tiles_128;
constexpr int multiprocessors = 132;

// Steps of each block. `starts` and `lengths` are those of a batch within the problem's bounds.
std::vector<int> steps_of_blocks(const Problem& problem, const std::vector<std::int32_t>& starts) {
  Parameters p = {};
  p.common.call = planned_call(problem);
  semantics::Call& call = p.common.call;
  call.batch = problem.batch;
  call.q_len = problem.q_len;
  call.total_q = starts.back();
  call.total_kv = starts.back();
  call.q_starts = call.kv_starts = starts.data();
  p.schedule = plan_schedule(problem, tiles, multiprocessors);
  std::set<std::tuple<semantics::Index, int, int>> met;
  std::vector<int> steps;
  for (int block = 0; block < p.schedule.teams * p.schedule.members; ++block) {
    blockIdx.x = static_cast<unsigned>(block);
    int sum = 0;
    WorkTile work;
    for (WorkTiles<tiles> all(p); all.next(work);) {
      sum += work.walk.count;
      EXPECT_TRUE(met.insert({work.sequence.index, work.kv_head, work.key_tile}).second)
          << "a tile of keys is somebody else's too";
    }
    steps.push_back(sum);
  }
  std::size_t wanted = 0;
  for (std::size_t i = 1; i < starts.size(); ++i)
    wanted += static_cast<std::size_t>((starts[i] - starts[i - 1] + tiles.keys - 1) / tiles.keys *
                                       problem.kv_heads);
  EXPECT_EQ(met.size(), wanted) << problem.to_string();
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
    const std::vector<int> steps = steps_of_blocks(problem, starts);
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

}  // namespace
}  // namespace rapt::test
