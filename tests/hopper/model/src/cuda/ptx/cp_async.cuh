// Copies from global to shared memory that their thread waits for, on the model: begun copies of a
// thread arrive when it waits.
#pragma once

#include "src/cuda/ptx/shared.cuh"

namespace rapt::cuda::ptx {

inline void cp_async(uint32_t to, const void* from, bool wanted) {
  std::byte* const memory = model::at_shared_address(to, 16);
  if (wanted)
    std::memcpy(memory, from, 16);
  else
    std::memset(memory, 0, 16);
}
inline void cp_async_commit() {}
inline void cp_async_wait_previous() {}
inline void cp_async_wait_all() {}

}  // namespace rapt::cuda::ptx
