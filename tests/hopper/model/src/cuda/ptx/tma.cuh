// TMA, on the model: boxes in rows of 128 bytes, swizzled.
#pragma once

#include <cuda.h>

#include <memory>
#include <vector>

#include "src/cuda/ptx/barrier.cuh"

namespace rapt::cuda::ptx {

inline void tma_prefetch(const CUtensorMap&) {}

// Calls visit(element of the tensor, where it lies in the box) for each element of a box; null for
// one that the tensor does not have.
template <class Visit>
void visit_box(const CUtensorMap& map, std::byte* box, const int (&at)[5], Visit visit) {
  uint32_t index[5] = {};
  for (uint32_t offset = 0;; offset += 2) {
    std::byte* element = map.data;
    for (int i = 0; i < 5; ++i) {
      const int64_t place = int64_t{at[i]} + index[i];
      if (place < 0 || place >= static_cast<int64_t>(map.size[i])) element = nullptr;
      if (element) element += place * static_cast<int64_t>(map.stride[i]);
    }
    const auto address = reinterpret_cast<uintptr_t>(box) + offset;
    visit(element, reinterpret_cast<std::byte*>(address ^ (address >> 7 & 7) << 4));
    int axis = 0;
    while (axis < 5 && ++index[axis] == map.box[axis]) index[axis++] = 0;
    if (axis == 5) return;
  }
}
inline int box_bytes(const CUtensorMap& map) {
  uint32_t bytes = 2;
  for (const uint32_t length : map.box) bytes *= length;
  return static_cast<int>(bytes);
}

inline void tma_load(const CUtensorMap& map, void* to, Barrier& barrier, int x, int y, int z, int w,
                     int v = 0) {
  if (reinterpret_cast<uintptr_t>(to) % 128 != 0) model::fail("TMA to where no row begins");
  model::begin([=, &barrier] {
    visit_box(map, static_cast<std::byte*>(to), {x, y, z, w, v},
              [](const std::byte* element, std::byte* place) {
                if (element)
                  std::memcpy(place, element, 2);
                else
                  std::memset(place, 0, 2);
              });
    barrier.complete(box_bytes(map));
  });
}
inline void tma_store(const CUtensorMap& map, const void* from, int x, int y, int z, int w, int v) {
  struct Write {
    std::byte* to;
    std::byte bytes[2];
  };
  const auto writes = std::make_shared<std::vector<Write>>();
  auto* const box = static_cast<std::byte*>(const_cast<void*>(from));
  model::begin_store(
      [=] {
        visit_box(map, box, {x, y, z, w, v}, [&](std::byte* element, const std::byte* place) {
          if (element) writes->push_back({element, {place[0], place[1]}});
        });
      },
      [=] {
        for (const Write& write : *writes) std::memcpy(write.to, write.bytes, 2);
      });
}
inline void tma_store_wait() { model::wait_for_stores(true); }

}  // namespace rapt::cuda::ptx
