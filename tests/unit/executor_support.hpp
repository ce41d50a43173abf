// What tests of executors share: jobs that show that every index was called once, or that several
// threads took part.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "src/core/parallel.hpp"

namespace rapt::test {

// The counts are no atomics: the executor has to make them visible to its caller.
inline void expect_every_index_once(Executor& executor, std::int64_t count) {
  std::vector<int> calls(static_cast<std::size_t>(count));
  parallel_for(executor, count, [&](std::int64_t i) { ++calls[static_cast<std::size_t>(i)]; });
  for (std::size_t i = 0; i < calls.size(); ++i) EXPECT_EQ(calls[i], 1) << "index " << i;
}

// Each index waits for all others: only `threads` threads at once can do that. They give up rather
// than hang.
inline void expect_threads_to_meet(Executor& executor, std::int64_t threads) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  std::atomic<std::int64_t> arrived = 0;
  std::atomic<bool> gave_up = false;
  parallel_for(executor, threads, [&](std::int64_t) {
    ++arrived;
    while (arrived < threads && !gave_up) {
      std::this_thread::yield();
      if (std::chrono::steady_clock::now() > deadline) gave_up = true;
    }
  });
  EXPECT_FALSE(gave_up) << "one of " << threads << " threads did not come";
}

}  // namespace rapt::test
