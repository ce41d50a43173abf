// Counters in global memory, on the model.
#pragma once

#include <cstdint>

#include "src/cuda/ptx/shared.cuh"

namespace rapt::cuda::ptx {

inline void count_up(uint32_t* counter) { ++*counter; }
inline void wait_for_count(const uint32_t* counter, uint32_t count) {
  model::wait_until("a counter", [=] { return *counter >= count; });
}

}  // namespace rapt::cuda::ptx
