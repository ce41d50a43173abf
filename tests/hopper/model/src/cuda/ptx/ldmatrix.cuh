// Matrix fragments from and to shared memory, on the model.
#pragma once

#include "src/cuda/ptx/shared.cuh"

namespace rapt::cuda::ptx {

// By a lane: an address, that of row lane % 8 of matrix lane / 8, and a word of row lane / 4 of
// each.
struct FragmentOperand {
  uint32_t address;
  uint32_t* words;
};
inline std::byte* fragment_word(void* const* lanes, int matrix, int lane) {
  const auto& row = *static_cast<const FragmentOperand*>(lanes[8 * matrix + lane / 4]);
  return model::at_shared_address(row.address, 16) + lane % 4 * 4;
}

inline void ldmatrix(uint32_t address, uint32_t (&to)[4]) {
  FragmentOperand operand = {address, to};
  model::together(
      "ldmatrix",
      [](void* const* lanes) {
        for (int lane = 0; lane < model::warp_threads; ++lane) {
          for (int i = 0; i < 4; ++i)
            std::memcpy(static_cast<FragmentOperand*>(lanes[lane])->words + i,
                        fragment_word(lanes, i, lane), 4);
        }
      },
      &operand);
}
inline void stmatrix(uint32_t address, const uint32_t (&from)[4]) {
  FragmentOperand operand = {address, const_cast<uint32_t*>(from)};
  model::together(
      "stmatrix",
      [](void* const* lanes) {
        for (int lane = 0; lane < model::warp_threads; ++lane) {
          for (int i = 0; i < 4; ++i)
            std::memcpy(fragment_word(lanes, i, lane),
                        static_cast<FragmentOperand*>(lanes[lane])->words + i, 4);
        }
      },
      &operand);
}

}  // namespace rapt::cuda::ptx
