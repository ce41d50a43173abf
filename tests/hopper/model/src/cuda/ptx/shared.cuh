// Shared memory by its addresses, on the model.
#pragma once

#include <cstdint>

#include "src/gpu/target.hpp"
#include "tests/hopper/model/cuda_language.hpp"

namespace rapt::cuda::ptx {

inline uint32_t shared_address(const void* memory) { return model::shared_address_of(memory); }
inline uint32_t load_shared(uint32_t address) {
  uint32_t word;
  std::memcpy(&word, model::at_shared_address(address, 4), 4);
  return word;
}
inline void load_shared(uint32_t address, uint32_t (&words)[4]) {
  std::memcpy(words, model::at_shared_address(address, 16), 16);
}
inline void store_shared(uint32_t address, const uint32_t (&words)[4]) {
  std::memcpy(model::at_shared_address(address, 16), words, 16);
}

}  // namespace rapt::cuda::ptx
