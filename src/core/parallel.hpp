// Work spread over an Executor by function object, without allocating.
#pragma once

#include <atomic>
#include <cstdint>

#include "rapt/rapt.hpp"

namespace rapt {

template <class Function>
void parallel_for(Executor& executor, std::int64_t count, Function&& function) {
  executor.parallel_for(
      count,
      [](void* context, std::int64_t index) {
        (*static_cast<std::remove_reference_t<Function>*>(context))(index);
      },
      &function);
}

// Calls function(slot, item) for every item below `items`. At any time a slot (below `slots`) is
// used by one thread only, so that it can name scratch memory. Items are taken in order as threads
// become free.
template <class Function>
void parallel_for_slots(Executor& executor, std::int64_t slots, std::int64_t items,
                        Function&& function) {
  std::atomic<std::int64_t> next = 0;
  parallel_for(executor, slots, [&](std::int64_t slot) {
    for (std::int64_t item = next++; item < items; item = next++) function(slot, item);
  });
}

}  // namespace rapt
