// Bulk copies, on the model.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "src/cuda/ptx/barrier.cuh"

namespace rapt::cuda::ptx {

inline void require_sixteens(const void* one, const void* other, int bytes) {
  if (reinterpret_cast<uintptr_t>(one) % 16 != 0 || reinterpret_cast<uintptr_t>(other) % 16 != 0 ||
      bytes % 16 != 0)
    model::fail("a bulk copy of what is not aligned to 16 bytes");
}

inline void bulk_load(void* to, const void* from, int bytes, Barrier& barrier) {
  require_sixteens(to, from, bytes);
  model::begin([=, &barrier] {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
    barrier.complete(bytes);
  });
}

template <class Write>
void bulk_write(float* to, const void* from, int bytes, Write write) {
  require_sixteens(to, from, bytes);
  const auto numbers = std::make_shared<std::vector<float>>(static_cast<std::size_t>(bytes) / 4);
  model::begin_store([=] { std::memcpy(numbers->data(), from, static_cast<std::size_t>(bytes)); },
                     [=] {
                       for (std::size_t i = 0; i < numbers->size(); ++i)
                         write(to[i], (*numbers)[i]);
                     });
}
inline void bulk_store(float* to, const void* from, int bytes) {
  bulk_write(to, from, bytes, [](float& there, float number) { there = number; });
}
inline void bulk_add(float* to, const void* from, int bytes) {
  bulk_write(to, from, bytes, [](float& there, float number) { there += number; });
}
inline void bulk_commit() {}
inline void bulk_wait_read() { model::wait_for_stores(true); }
inline void bulk_wait() { model::wait_for_stores(false); }

}  // namespace rapt::cuda::ptx
