// The largest and the sum of what the threads of a block hold, for all of them. Both take the first
// `threads` · 4 bytes of shared memory.
#pragma once

#include "src/gpu/target.hpp"

namespace rapt::gpu {

// `combine(result, value of 32 lanes)` in the order of the threads.
template <class Target, int threads, class Combine>
RAPT_DEVICE float combined_over_block(float value_of_lanes, float start, Combine combine) {
  const auto memory = Target::template shared<float>(0, threads);
  Target::block_barrier();
  if (Target::thread() % 32 == 0) memory.store(Target::thread() / 32, value_of_lanes);
  Target::block_barrier();
  float result = start;
  for (int i = 0; i < threads / 32; ++i) result = combine(result, memory.load(i));
  return result;
}

template <class Target, int threads>
RAPT_DEVICE float largest_of_block(float value) {
  value = largest_over<Target, 32>(value);
  return combined_over_block<Target, threads>(
      value, value, [](float largest, float other) { return other > largest ? other : largest; });
}

template <class Target, int threads>
RAPT_DEVICE float sum_of_block(float value) {
  return combined_over_block<Target, threads>(sum_over<Target, 32>(value), 0.0f,
                                              [](float sum, float other) { return sum + other; });
}

}  // namespace rapt::gpu
