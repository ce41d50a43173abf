// One plan, one pool, many threads: the same bits, and nothing for ThreadSanitizer to find.
#include <atomic>
#include <functional>
#include <latch>
#include <thread>

#include "src/core/parallel.hpp"
#include "src/cpu/thread_pool.hpp"
#include "tests/unit/support.hpp"

namespace rapt::test {
namespace {

constexpr int thread_count = 8;

// Runs function(thread) on eight threads that start together.
void on_many_threads(const std::function<void(int)>& function) {
  std::latch start(thread_count);
  std::vector<std::thread> threads;
  for (int i = 0; i < thread_count; ++i) {
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      function(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// The example's inputs with results of the thread's own.
struct OwnResults {
  std::vector<float> out, lse;
  Arguments arguments;

  explicit OwnResults(const Example& example)
      : out(example.out().size(), 99), lse(example.lse().size(), 99), arguments(example.arguments) {
    arguments.out.data = out.data();
    arguments.lse.data = lse.data();
  }
};

constexpr const char* problem_text =
    "b2 h4/2 q19 kv37 d20 f32 causal bias:hqk sinks kv_lengths page4 lse align4";

class SharedPlan : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Kernels, SharedPlan, ::testing::Values("cpu.naive", "cpu.oracle"),
                         [](const auto& kernel) { return std::string(kernel.param).substr(4); });

TEST_P(SharedPlan, GivesTheSameBitsFromEveryThread) {
  const Example example{std::string_view(problem_text)};
  example.run(GetParam());
  const auto out = bits(example.out()), lse = bits(example.lse());
  const Plan plan(example.problem, two_threads(), {.kernel = GetParam()});
  on_many_threads([&](int thread) {
    const Buffer workspace(two_threads(), plan.workspace_bytes());
    for (int time = 0; time < 5; ++time) {
      OwnResults results(example);
      plan.run(results.arguments, {.workspace = workspace.bytes()});
      EXPECT_EQ(bits(results.out), out) << "thread " << thread << ", time " << time;
      EXPECT_EQ(bits(results.lse), lse) << "thread " << thread << ", time " << time;
    }
  });
}

TEST_P(SharedPlan, MayBeCopiedAndDroppedWhileOthersRun) {
  const Example example{std::string_view(problem_text)};
  example.run(GetParam());
  const auto out = bits(example.out());
  auto plan =
      std::make_unique<Plan>(example.problem, two_threads(), PlanOptions{.kernel = GetParam()});
  std::vector<Plan> copies(thread_count, *plan);
  plan.reset();
  on_many_threads([&](int thread) {
    const Plan mine = std::move(copies[static_cast<std::size_t>(thread)]);
    const Buffer workspace(two_threads(), mine.workspace_bytes());
    OwnResults results(example);
    mine.run(results.arguments, {.workspace = workspace.bytes()});
    EXPECT_EQ(bits(results.out), out) << "thread " << thread;
  });
}

TEST(ConcurrentPlans, AreMadeAndRunOnPoolsThatComeAndGo) {
  const Example example{std::string_view(problem_text)};
  example.run();
  const auto out = bits(example.out());
  on_many_threads([&](int thread) {
    for (int time = 0; time < 4; ++time) {
      const Device device = Device::cpu(1 + (thread + time) % 3);
      const Plan plan(example.problem, device, {.kernel = "cpu.naive"});
      const Buffer workspace(device, plan.workspace_bytes());
      OwnResults results(example);
      plan.run(results.arguments, {.workspace = workspace.bytes()});
      EXPECT_EQ(bits(results.out), out) << "thread " << thread << ", time " << time;
    }
  });
}

TEST(ConcurrentPlans, FailWithoutHarmToOthers) {
  const Example example{std::string_view(problem_text)};
  example.run();
  const auto out = bits(example.out());
  const Plan plan(example.problem, two_threads(), {.kernel = "cpu.naive"});
  on_many_threads([&](int thread) {
    OwnResults results(example);
    if (thread % 2 == 0) {
      EXPECT_TRUE(throws(ErrorCode::invalid_argument, "the workspace has 0 bytes",
                         [&] { plan.run(results.arguments); }));
    } else {
      const Buffer workspace(two_threads(), plan.workspace_bytes());
      plan.run(results.arguments, {.workspace = workspace.bytes()});
      EXPECT_EQ(bits(results.out), out);
    }
  });
}

TEST(SharedPool, RunsNestedJobsOfManyCallers) {
  Executor* pool = &shared_thread_pool(3);
  on_many_threads([&](int) {
    for (int time = 0; time < 20; ++time) {
      std::atomic<int> calls = 0;
      auto inner = [&](std::int64_t) { ++calls; };
      parallel_for(*pool, 8, [&](std::int64_t) { parallel_for(*pool, 4, inner); });
      EXPECT_EQ(calls, 8 * 4);
    }
  });
}

TEST(ConcurrentMerges, GiveTheSameBits) {
  const Example first("b1 h4 q9 kv7 d20 f32 lse"), second("b1 h4 q9 kv5 d20 f32 lse", 2);
  first.run();
  second.run();
  const Partial a = {first.arguments.out, first.arguments.lse};
  const Partial b = {second.arguments.out, second.arguments.lse};
  OwnResults expected(first);
  merge(a, b, {expected.arguments.out, expected.arguments.lse}, two_threads());
  on_many_threads([&](int) {
    OwnResults results(first);
    merge(a, b, {results.arguments.out, results.arguments.lse}, two_threads());
    EXPECT_EQ(bits(results.out), bits(expected.out));
    EXPECT_EQ(bits(results.lse), bits(expected.lse));
  });
}

}  // namespace
}  // namespace rapt::test
