#include "cli/limits/measure.hpp"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <limits>
#include <thread>
#include <vector>

namespace rapt::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int trials = 40;
constexpr double shortest_trial = 0.004;  // seconds

}  // namespace

double seconds_on_threads(std::int32_t threads, const ThreadWork& work) {
  const auto count = static_cast<std::size_t>(threads);
  std::vector<Clock::time_point> begins(count), ends(count);
  std::barrier start(threads);
  // Each thread reads the clock itself: one that wakes late must not shorten the others' time.
  const auto body = [&](std::size_t index) {
    start.arrive_and_wait();
    begins[index] = Clock::now();
    work(static_cast<std::int32_t>(index));
    ends[index] = Clock::now();
  };
  std::vector<std::thread> others;
  for (std::size_t index = 1; index < count; ++index) others.emplace_back(body, index);
  body(0);
  for (std::thread& other : others) other.join();
  return std::chrono::duration<double>(*std::ranges::max_element(ends) -
                                       *std::ranges::min_element(begins))
      .count();
}

double rounds_per_second(std::int32_t threads, const std::function<void(std::int64_t)>& loop) {
  std::int64_t rounds = 1 << 14;
  const auto work = [&](std::int32_t) { loop(rounds); };
  while (seconds_on_threads(threads, work) < shortest_trial) rounds *= 2;
  double best = std::numeric_limits<double>::infinity();
  for (int trial = 0; trial < trials; ++trial)
    best = std::min(best, seconds_on_threads(threads, work));
  return static_cast<double>(rounds) / best;
}

}  // namespace rapt::cli
