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

// Of a matrix that lies in registers, transposed: rows are its columns.
template <int matrices>
void store_transposed_matrices(void* const* lanes) {
  for (int lane = 0; lane < model::warp_threads; ++lane) {
    for (int i = 0; i < matrices; ++i) {
      for (int part = 0; part < 2; ++part) {
        const int row = lane % 4 * 2 + part, column = lane / 4;
        const auto& to = *static_cast<const FragmentOperand*>(lanes[8 * i + row]);
        const auto* const word = static_cast<FragmentOperand*>(lanes[lane])->words + i;
        std::memcpy(model::at_shared_address(to.address, 16) + column * 2,
                    reinterpret_cast<const std::byte*>(word) + part * 2, 2);
      }
    }
  }
}
template <int matrices>
void stmatrix_transposed(uint32_t address, const uint32_t (&from)[matrices]) {
  FragmentOperand operand = {address, const_cast<uint32_t*>(from)};
  model::together("stmatrix.trans", store_transposed_matrices<matrices>, &operand);
}

inline uint32_t transpose_matrix(uint32_t from) {
  struct Operand {
    uint32_t from, to;
  } operand = {from, 0};
  model::together(
      "movmatrix",
      [](void* const* lanes) {
        const auto half = [&](int row, int column) {
          return static_cast<const Operand*>(lanes[row * 4 + column / 2])->from >> column % 2 * 16 &
                 0xffff;
        };
        for (int lane = 0; lane < model::warp_threads; ++lane) {
          const int row = lane / 4, column = lane % 4 * 2;
          static_cast<Operand*>(lanes[lane])->to = half(column, row) | half(column + 1, row) << 16;
        }
      },
      &operand);
  return operand.to;
}

}  // namespace rapt::cuda::ptx
