// Threads lent by the caller give the same bits as rapt's own, and rapt's pool calls every index
// once, however many call it, nested or at once, in this process or in one forked from it.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>
#include <set>
#include <system_error>
#include <thread>

#include "src/cpu/thread_pool.hpp"
#include "tests/unit/counting_allocator.hpp"
#include "tests/unit/executor_support.hpp"
#include "tests/unit/support.hpp"

namespace rapt::test {
namespace {

class OwnThreads final : public Executor {
 public:
  explicit OwnThreads(std::int32_t threads) : threads_(threads) {}
  std::int32_t concurrency() const override { return threads_; }
  void parallel_for(std::int64_t count, void (*body)(void*, std::int64_t), void* context) override {
    ++calls;
    std::vector<std::thread> threads;
    for (std::int64_t index = 0; index < count; ++index)
      threads.emplace_back([=] { body(context, index); });
    for (std::thread& thread : threads) thread.join();
  }
  int calls = 0;

 private:
  std::int32_t threads_;
};

class Serial final : public Executor {
 public:
  std::int32_t concurrency() const override { return 1; }
  void parallel_for(std::int64_t count, void (*body)(void*, std::int64_t), void* context) override {
    for (std::int64_t index = 0; index < count; ++index) body(context, index);
  }
};

// Promises three threads, then does everything on one, last index first.
class Reverse final : public Executor {
 public:
  std::int32_t concurrency() const override { return 3; }
  void parallel_for(std::int64_t count, void (*body)(void*, std::int64_t), void* context) override {
    for (std::int64_t index = count; index-- > 0;) body(context, index);
  }
};

class Idle final : public Executor {
 public:
  std::int32_t concurrency() const override { return 0; }
  void parallel_for(std::int64_t, void (*)(void*, std::int64_t), void*) override {}
};

TEST(LentThreads, GiveTheSameBitsAsRaptsOwn) {
  std::set<std::string_view> ran;
  for (const char* text :
       {"b2 h4/2 q37 kv41 d20 bf16 causal bias:hqk sinks lse",
        "b1 h4/2 q150 kv300 d20 f32 causal lse", "b3 h4/2 q1 kv3000 d16 f16 kv_lengths page16 lse",
        "b70 h2 q3 kv9 d8 f32 lse",
        "b2 h4/2 q37 kv41 d20 bf16 causal bias:hqk alibi backward:bias,alibi"}) {
    const Example example{std::string_view(text)};
    for (const std::string_view kernel : kernels_for(example.problem)) {
      ran.insert(kernel);
      example.run(kernel);
      const auto results = bits(example.results());
      OwnThreads own(4);
      Serial serial;
      Reverse reverse;
      for (Executor* executor : {static_cast<Executor*>(&own), static_cast<Executor*>(&serial),
                                 static_cast<Executor*>(&reverse)}) {
        example.poison_results();
        example.run(kernel, executor);
        EXPECT_EQ(bits(example.results()), results) << kernel << " on " << text;
      }
      EXPECT_GT(own.calls, 0) << kernel << " left the lent threads alone on " << text;
    }
  }
  expect_every_kernel_in(ran);
}

TEST(LentThreads, SetThePlansNumberOfThreads) {
  OwnThreads own(7);
  EXPECT_EQ(Plan(Problem::parse("s5 d4"), two_threads(), {.executor = &own}).device().threads, 7);
}

TEST(LentThreads, MustBeAtLeastOne) {
  Idle idle;
  EXPECT_TRUE(throws(ErrorCode::invalid_argument, "the executor's concurrency is 0",
                     [&] { Plan(Problem::parse("s5 d4"), two_threads(), {.executor = &idle}); }));
}

TEST(ThreadPool, CallsEveryIndexOnce) {
  for (const std::int32_t threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.concurrency(), threads);
    for (const std::int64_t count : {0, 1, 2, 3, 7, 1000}) expect_every_index_once(pool, count);
  }
}

TEST(ThreadPool, UsesItsWorkers) {
  ThreadPool pool(3);
  for (const std::int64_t threads : {3, 2, 3}) expect_threads_to_meet(pool, threads);
}

TEST(ThreadPool, WakesWorkersThatSleep) {
  ThreadPool pool(3);
  for (const std::int64_t threads : {3, 2, 3}) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // much longer than they spin
    expect_threads_to_meet(pool, threads);
  }
}

TEST(ThreadPool, MayHaveMoreThreadsThanTheMachineHasProcessors) {
  ThreadPool pool(64);
  expect_threads_to_meet(pool, 64);
  for (const std::int64_t count : {2, 64, 1000}) expect_every_index_once(pool, count);
}

TEST(ThreadPool, TakesNestedCalls) {
  ThreadPool pool(3);
  std::atomic<int> calls = 0;
  parallel_for(pool, 6, [&](std::int64_t) {
    parallel_for(pool, 5,
                 [&](std::int64_t) { parallel_for(pool, 2, [&](std::int64_t) { ++calls; }); });
  });
  EXPECT_EQ(calls, 6 * 5 * 2);
  expect_every_index_once(pool, 100);
}

TEST(ThreadPool, ServesManyCallersAtOnce) {
  ThreadPool pool(3);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 6; ++caller) {
    callers.emplace_back([&] {
      for (int time = 0; time < 50; ++time) expect_every_index_once(pool, 37);
    });
  }
  for (std::thread& caller : callers) caller.join();
}

TEST(ThreadPool, IsSharedByThoseWhoWantAsManyThreads) {
  const Executor *first = &shared_thread_pool(3), *second = &shared_thread_pool(3);
  EXPECT_EQ(first, second);
  EXPECT_NE(first, &shared_thread_pool(2));
}

TEST(ThreadPool, AllocatesNothingForAJob) {
  ThreadPool pool(3);
  std::atomic<int> calls = 0;
  const auto job = [&] { parallel_for(pool, 100, [&](std::int64_t) { ++calls; }); };
  expect_threads_to_meet(pool, 3);  // they have started
  const std::int64_t before = allocations_so_far();
  for (int time = 0; time < 10; ++time) job();
  EXPECT_EQ(allocations_so_far(), before);
  EXPECT_EQ(calls, 1000);
}

// Runs `function` in a forked child, whose exit code is then 0, or 1 if an expectation failed
// there. A child that hangs is a failure too.
int exit_code_of_child(const std::function<void()>& function) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    function();
    std::fflush(nullptr);
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  if (child < 0) {
    ADD_FAILURE() << "no child could be forked";
    return -1;
  }
  int status = 0;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      ADD_FAILURE() << "the child hangs";
      return -1;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void use_every_thread(Executor& pool) {
  expect_every_index_once(pool, 1000);
  expect_threads_to_meet(pool, pool.concurrency());
}

TEST(ForkedChild, HasWorkersOfItsOwnAndLeavesTheParentsAlone) {
  ThreadPool pool(3), another(3);
  use_every_thread(pool);
  use_every_thread(another);
  const auto child = [&] {
    use_every_thread(pool);
    use_every_thread(another);
  };
  for (int time = 0; time < 3; ++time) {
    ASSERT_EQ(exit_code_of_child(child), 0);
    use_every_thread(pool);
  }
}

TEST(ForkedChild, MayForkAgain) {
  ThreadPool pool(3);
  use_every_thread(pool);
  const auto grandchild = [&] { use_every_thread(pool); };
  const auto idle_child = [&] { EXPECT_EQ(exit_code_of_child(grandchild), 0); };
  const auto busy_child = [&] {
    use_every_thread(pool);
    EXPECT_EQ(exit_code_of_child(grandchild), 0);
  };
  EXPECT_EQ(exit_code_of_child(idle_child), 0);
  EXPECT_EQ(exit_code_of_child(busy_child), 0);
}

TEST(ForkedChild, LeavesAJobBehindThatAnotherThreadOfItsParentRuns) {
  ThreadPool pool(3);
  std::atomic<int> inside = 0;
  std::atomic<bool> finish = false;
  std::thread caller([&] {
    parallel_for(pool, 3, [&](std::int64_t) {
      ++inside;
      while (!finish) std::this_thread::yield();
    });
  });
  while (inside < 3) std::this_thread::yield();
  EXPECT_EQ(exit_code_of_child([&] { use_every_thread(pool); }), 0);
  finish = true;
  caller.join();
  use_every_thread(pool);
}

// Forks while another thread of the parent does `work` again and again, not while it starts: a
// child can inherit the locks of a sanitizer's allocator. For the same reason the work may not
// allocate, and a pool's threads have met before a test forks.
void expect_children_to_end_well(const std::function<void()>& work,
                                 const std::function<void()>& in_child) {
  std::atomic<bool> working = false, finish = false;
  std::thread other([&] {
    while (!finish) {
      work();
      working = true;
    }
  });
  while (!working) std::this_thread::yield();
  for (int time = 0; time < 30 && !::testing::Test::HasFailure(); ++time)
    EXPECT_EQ(exit_code_of_child(in_child), 0);
  finish = true;
  other.join();
}

TEST(ForkedChild, EndsWellWhateverAPoolOfTheParentIsDoing) {
  ThreadPool pool(2);
  use_every_thread(pool);
  expect_children_to_end_well(
      [&] {
        std::atomic<int> calls = 0;
        parallel_for(pool, 4, [&](std::int64_t) { ++calls; });
        EXPECT_EQ(calls, 4);
      },
      [&] {
        ThreadPool another(2);
        use_every_thread(pool);
        use_every_thread(another);
      });
}

TEST(ForkedChild, FindsThePoolsThatOthersWereLookingFor) {
  use_every_thread(shared_thread_pool(2));
  expect_children_to_end_well([] { shared_thread_pool(2); },
                              [] { use_every_thread(shared_thread_pool(2)); });
}

TEST(ForkedChild, MayDestroyAPoolWhoseWorkersAreInTheParent) {
  auto pool = std::make_unique<ThreadPool>(3);
  use_every_thread(*pool);
  EXPECT_EQ(exit_code_of_child([&] { pool.reset(); }), 0);
  EXPECT_EQ(exit_code_of_child([&] {
              use_every_thread(*pool);
              pool.reset();
            }),
            0);
}

constexpr int no_way_to_limit = 77;

// Takes the right to more threads from this process, or ends it. Root may have any number of them
// and becomes another user.
void forbid_more_threads() {
  constexpr uid_t nobody = 65534;
  const rlimit none = {0, 0};
  if (setrlimit(RLIMIT_NPROC, &none) != 0) _exit(no_way_to_limit);
  if (getuid() == 0 && setuid(nobody) != 0) _exit(no_way_to_limit);
  try {
    std::thread([] {}).join();
    _exit(no_way_to_limit);
  } catch (const std::system_error&) {
  }
}

TEST(ThreadsThatTheSystemDoesNotGive, AreAnErrorThatSaysSo) {
  const int code = exit_code_of_child([] {
    forbid_more_threads();
    EXPECT_TRUE(throws(ErrorCode::out_of_memory, "the system gives 1 of 4 threads; ask for fewer",
                       [] { ThreadPool(4); }));
  });
  if (code == no_way_to_limit) GTEST_SKIP() << "the number of threads cannot be limited here";
  EXPECT_EQ(code, 0);
}

TEST(ThreadsThatTheSystemDoesNotGive, AreNotMissedByAForkedChild) {
  ThreadPool pool(4);
  use_every_thread(pool);
  const int code = exit_code_of_child([&] {
    forbid_more_threads();
    for (int time = 0; time < 3; ++time) expect_every_index_once(pool, 1000);
  });
  if (code == no_way_to_limit) GTEST_SKIP() << "the number of threads cannot be limited here";
  EXPECT_EQ(code, 0);
}

TEST(Slots, BelongToOneThreadAtATime) {
  ThreadPool pool(4);
  std::array<std::atomic<int>, 4> users = {};
  std::vector<std::atomic<int>> calls(500);
  parallel_for_slots(pool, 4, 500, [&](std::int64_t slot, std::int64_t item) {
    EXPECT_EQ(users[static_cast<std::size_t>(slot)]++, 0);
    ++calls[static_cast<std::size_t>(item)];
    --users[static_cast<std::size_t>(slot)];
  });
  for (const auto& count : calls) EXPECT_EQ(count, 1);
}

}  // namespace
}  // namespace rapt::test
