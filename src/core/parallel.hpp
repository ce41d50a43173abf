// Work spread over an Executor by function object, without allocating.
#pragma once

#include <algorithm>
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

// Calls function(slot, item) for every item below `items`. A slot (below `slots`) belongs to one
// call of the executor's, so that it can name scratch memory; items are taken in order as threads
// become free, none after one of them has found the executor stopped. An executor that calls its
// body too often finds no slot left, one that leaves an index out leaves more items to the others.
template <class Function>
void parallel_for_slots(Executor& executor, std::int64_t slots, std::int64_t items,
                        Function&& function) {
  slots = std::min(slots, items);
  std::atomic<std::int64_t> next_slot = 0, next_item = 0;
  parallel_for(executor, slots, [&](std::int64_t) {
    const std::int64_t slot = next_slot++;
    if (slot >= slots) return;
    for (std::int64_t item = next_item++; item < items; item = next_item++) {
      function(slot, item);
      if (executor.stopped()) next_item = items;
    }
  });
}

}  // namespace rapt
