#include "src/emulator/matrix_units.hpp"

#include <bit>
#include <cstring>

#include "src/core/float16.hpp"
#include "src/emulator/shared_view.hpp"

namespace rapt::emulator {
namespace {

constexpr int matrices = 4, matrix_rows = 8;

// What lane `lane` of the warp reads of shared memory.
template <class Value>
Value read(std::span<Thread> lanes, int lane, int byte) {
  Thread& thread = lanes[static_cast<std::size_t>(lane)];
  current_thread = &thread;
  return Shared<Value>(thread, byte, 1, thread.here).load(0, thread.here);
}

template <class Operands>
Operands& operands_of(std::span<Thread> lanes, int lane) {
  return *static_cast<Operands*>(lanes[static_cast<std::size_t>(lane)].operands);
}

int row_of(std::span<Thread> lanes, int matrix, int row) {
  return operands_of<LdmatrixOperands>(lanes, matrix * matrix_rows + row).byte;
}

// Elements in a word of an operand.
template <class Element>
constexpr int in_word = 4 / static_cast<int>(sizeof(Element));

// The i-th of them, as the tensor core takes it.
template <class Element>
double element(std::uint32_t word, int i) {
  if constexpr (in_word<Element> == 1) {
    return std::bit_cast<float>(word & 0xffffe000u);
  } else {
    return to_float(Element{static_cast<std::uint16_t>(word >> 16 * i)});
  }
}

}  // namespace

void ldmatrix(std::span<Thread> lanes) {
  for (int lane = 0; lane < warp_lanes; ++lane) {
    for (int i = 0; i < matrices; ++i)
      operands_of<LdmatrixOperands>(lanes, lane).to[i] =
          read<std::uint32_t>(lanes, lane, row_of(lanes, i, lane / 4) + lane % 4 * 4);
  }
}

void ldmatrix_transposed(std::span<Thread> lanes) {
  for (int lane = 0; lane < warp_lanes; ++lane) {
    for (int i = 0; i < matrices; ++i) {
      const auto half = [&](int row) -> std::uint32_t {
        return read<std::uint16_t>(lanes, lane, row_of(lanes, i, row) + lane / 4 * 2);
      };
      const int row = lane % 4 * 2;
      operands_of<LdmatrixOperands>(lanes, lane).to[i] = half(row) | half(row + 1) << 16;
    }
  }
}

template <class Element>
void mma(std::span<Thread> lanes) {
  constexpr int rows = 16, columns = 8, words = 8, depth = words * in_word<Element>;
  double a[rows][depth], b[depth][columns], c[rows][columns];
  for (int lane = 0; lane < warp_lanes; ++lane) {
    const auto& operands = operands_of<MmaOperands>(lanes, lane);
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i) {
      c[g + i / 2 * 8][2 * t + i % 2] = operands.c[i];
      for (int x = 0; x < in_word<Element>; ++x)
        a[g + i % 2 * 8][(t + i / 2 * 4) * in_word<Element> + x] =
            element<Element>(operands.a[i], x);
    }
    for (int i = 0; i < 2; ++i) {
      for (int x = 0; x < in_word<Element>; ++x)
        b[(t + i * 4) * in_word<Element> + x][g] = element<Element>(operands.b[i], x);
    }
  }
  for (int row = 0; row < rows; ++row) {
    for (int k = 0; k < depth; ++k) {
      for (int column = 0; column < columns; ++column) c[row][column] += a[row][k] * b[k][column];
    }
  }
  for (int lane = 0; lane < warp_lanes; ++lane) {
    for (int i = 0; i < 4; ++i)
      operands_of<MmaOperands>(lanes, lane).c[i] =
          static_cast<float>(c[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2]);
  }
}

template void mma<float>(std::span<Thread> lanes);
template void mma<F16>(std::span<Thread> lanes);
template void mma<BF16>(std::span<Thread> lanes);

}  // namespace rapt::emulator
