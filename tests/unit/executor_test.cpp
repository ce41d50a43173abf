// Threads lent by the caller give the same bits as rapt's own, and rapt's pool calls every index
// once, however many call it, nested or at once.
#include <atomic>
#include <functional>
#include <thread>

#include "src/core/parallel.hpp"
#include "src/cpu/thread_pool.hpp"
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
  for (const char* kernel : {"cpu.naive", "cpu.oracle"}) {
    const Example example("b2 h4/2 q37 kv41 d20 bf16 causal bias:hqk sink lse");
    example.run(kernel);
    const auto out = bits(example.out()), lse = bits(example.lse());
    OwnThreads own(4);
    Serial serial;
    Reverse reverse;
    for (Executor* executor : {static_cast<Executor*>(&own), static_cast<Executor*>(&serial),
                               static_cast<Executor*>(&reverse)}) {
      fill(example.arguments.out, std::vector<float>(out.size(), 99));
      fill(example.arguments.lse, std::vector<float>(lse.size(), 99));
      example.run(kernel, executor);
      EXPECT_EQ(bits(example.out()), out) << kernel;
      EXPECT_EQ(bits(example.lse()), lse) << kernel;
    }
    EXPECT_GT(own.calls, 0) << "the lent threads did the work";
  }
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

void expect_every_index_once(Executor& executor, std::int64_t count) {
  std::vector<std::atomic<int>> calls(static_cast<std::size_t>(count));
  parallel_for(executor, count, [&](std::int64_t i) { ++calls[static_cast<std::size_t>(i)]; });
  for (std::size_t i = 0; i < calls.size(); ++i) EXPECT_EQ(calls[i], 1) << "index " << i;
}

TEST(ThreadPool, CallsEveryIndexOnce) {
  for (const std::int32_t threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.concurrency(), threads);
    for (const std::int64_t count : {0, 1, 2, 3, 7, 1000}) expect_every_index_once(pool, count);
  }
}

TEST(ThreadPool, UsesItsWorkers) {
  ThreadPool pool(2);
  std::atomic<int> arrived = 0;
  // Each index waits for the other: only two threads can finish.
  parallel_for(pool, 2, [&](std::int64_t) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
  });
  EXPECT_EQ(arrived, 2);
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
