// How long a job without work takes on rapt's own threads, from the call until it returns, with
// every thread taking part: jobs follow each other at once, so that workers are awake.
#include <algorithm>
#include <atomic>
#include <chrono>

#include "cli/limits/measure.hpp"
#include "src/cpu/thread_pool.hpp"

namespace rapt::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto time_for_all = std::chrono::milliseconds(100), time_for_one = time_for_all / 100;

// Each index waits for the others, else the caller would do all of them before anybody comes. On a
// busy machine they give up.
struct Meeting {
  std::int32_t threads;
  Clock::time_point end = Clock::now() + time_for_one;
  std::atomic<std::int32_t> arrived = 0;
  std::atomic<bool> complete = true;

  void attend() {
    ++arrived;
    while (arrived < threads && complete) {
      if (Clock::now() > end) complete = false;
    }
  }
};

}  // namespace

double measure_dispatch_seconds(std::int32_t threads) {
  threads = std::min(threads, most_threads);
  if (threads == 1) return 0;
  Executor& pool = shared_thread_pool(threads);
  double best = 0;
  for (const auto end = Clock::now() + time_for_all; Clock::now() < end;) {
    Meeting meeting{threads};
    const auto begin = Clock::now();
    pool.parallel_for(
        threads, [](void* context, std::int64_t) { static_cast<Meeting*>(context)->attend(); },
        &meeting);
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (meeting.complete && (best == 0 || seconds < best)) best = seconds;
  }
  return best;
}

}  // namespace rapt::cli
