// The loops that find what a CPU reaches, and how they are timed: the best of many trials, each so
// short that some of them escape whatever else the machine is doing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "rapt/rapt.hpp"

namespace rapt::cli {

// Work of one thread, named by its number from 0.
using ThreadWork = std::function<void(std::int32_t thread)>;

// Seconds from the first thread's start to the last one's end, with all of them running at once.
double seconds_on_threads(std::int32_t threads, const ThreadWork& work);

// Rounds of a loop per second and thread, where `loop(rounds)` runs it.
double rounds_per_second(std::int32_t threads, const std::function<void(std::int64_t)>& loop);

// Flop/s of all threads together.
double measure_f32_flops(const Device& device, std::int32_t threads);
double measure_matrix_flops(const Device& device, std::int32_t threads);  // bf16; 0: no unit

// Seconds of a job without work on all of rapt's own threads; 0 where there is only one, or where
// they never came together.
double measure_dispatch_seconds(std::int32_t threads);

// Bytes/s of all threads together, over memory far larger than the caches.
class MemoryMeasurement {
 public:
  MemoryMeasurement(const Device& device, std::int32_t most_threads);
  double read_bandwidth(std::int32_t threads) const;
  double copy_bandwidth(std::int32_t threads) const;  // bytes read plus bytes written

 private:
  using Pass = std::function<void(std::byte* begin, std::size_t bytes)>;
  double best_bandwidth(std::int32_t threads, std::size_t rounds, const Pass& pass) const;

  std::size_t bytes_;
  std::unique_ptr<std::byte, void (*)(void*)> memory_;
};

}  // namespace rapt::cli
