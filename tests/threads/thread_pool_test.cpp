// rapt's pool under stress: callers at once, nested, with workers awake, asleep and in between,
// with more threads than processors, and in a process that forks.
#include "src/cpu/thread_pool.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <latch>
#include <memory>

#include "tests/unit/executor_support.hpp"

namespace rapt::test {
namespace {

using std::chrono::microseconds;

TEST(PoolUnderStress, CallsEveryIndexOnceForManyCallersAtOnce) {
  for (const std::int32_t threads : {2, 5}) {
    ThreadPool pool(threads);
    constexpr int caller_count = 6;
    std::latch start(caller_count);
    std::vector<std::thread> callers;
    for (int caller = 0; caller < caller_count; ++caller) {
      callers.emplace_back([&, caller] {
        start.arrive_and_wait();
        for (int time = 0; time < 200; ++time) expect_every_index_once(pool, 2 + time % 7 * caller);
      });
    }
    for (std::thread& caller : callers) caller.join();
  }
}

TEST(PoolUnderStress, TakesNestedJobsFromEveryThread) {
  ThreadPool pool(3);
  for (int time = 0; time < 100; ++time) {
    parallel_for(pool, 6, [&](std::int64_t) { expect_every_index_once(pool, 5); });
  }
}

// Jobs one after the other and as short as can be: workers come late to most of them.
TEST(PoolUnderStress, RunsJobsThatEndBeforeItsWorkersCome) {
  ThreadPool pool(2);
  for (int time = 0; time < 20000; ++time) {
    std::array<int, 2> calls = {};
    parallel_for(pool, 2, [&](std::int64_t i) { ++calls[static_cast<std::size_t>(i)]; });
    ASSERT_EQ(calls, (std::array{1, 1})) << "time " << time;
  }
}

// Pauses on both sides of the time that workers spin for: they are awake, asleep, or about to be.
TEST(PoolUnderStress, WakesAsManyWorkersAsAJobCanUse) {
  for (const std::int32_t threads : {2, 5}) {
    ThreadPool pool(threads);
    for (int time = 0; time < 300; ++time) {
      expect_threads_to_meet(pool, 2 + time % (threads - 1));
      if (time % 4 != 0) std::this_thread::sleep_for(microseconds(time % 100));
      if (time % 50 == 0) std::this_thread::sleep_for(microseconds(2000));
    }
  }
}

TEST(PoolUnderStress, ServesMoreThreadsThanProcessors) {
  ThreadPool pool(64);
  for (int time = 0; time < 10; ++time) {
    for (const std::int64_t count : {2, 64, 500}) expect_every_index_once(pool, count);
    expect_threads_to_meet(pool, 64);
  }
}

TEST(PoolUnderStress, SharesProcessorsWithOtherPools) {
  std::vector<std::unique_ptr<ThreadPool>> pools;
  for (int i = 0; i < 4; ++i) pools.push_back(std::make_unique<ThreadPool>(2));
  std::vector<std::thread> callers;
  for (const auto& pool : pools) {
    callers.emplace_back([&pool] {
      for (int time = 0; time < 200; ++time) expect_every_index_once(*pool, 50);
    });
  }
  for (std::thread& caller : callers) caller.join();
}

TEST(PoolUnderStress, EndsWhateverItsWorkersAreDoing) {
  for (int time = 0; time < 100; ++time) {
    ThreadPool pool(3);
    if (time % 4 > 0) expect_every_index_once(pool, 3);
    if (time % 4 > 1) std::this_thread::sleep_for(microseconds(40 * (time % 4)));
  }
}

// What children do with their pools is in tests/unit: ThreadSanitizer lets them start no threads.
TEST(PoolUnderStress, IsNotDisturbedByForks) {
  ThreadPool pool(3);
  std::atomic<bool> finish = false;
  std::thread caller([&] {
    for (int time = 0; !finish; ++time) {
      expect_every_index_once(pool, 20);
      expect_every_index_once(shared_thread_pool(2 + time % 4), 5);
    }
  });
  for (int time = 0; time < 20; ++time) {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  finish = true;
  caller.join();
}

}  // namespace
}  // namespace rapt::test
