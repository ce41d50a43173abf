// Matrix fragments from and to shared memory: four matrices of 8 rows × 16 bytes. Lanes 8 i … 8 i +
// 7 give the addresses of the rows of matrix i; lane l has 4 bytes of row l / 4 of each.
#pragma once

#include <cstdint>

#include "src/gpu/target.hpp"

namespace rapt::cuda::ptx {

RAPT_DEVICE void ldmatrix(uint32_t address, uint32_t (&to)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}

// The same of matrices of 8 × 8 elements of 16 bits, transposed.
RAPT_DEVICE void ldmatrix_transposed(uint32_t address, uint32_t (&to)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}

// Hopper.
RAPT_DEVICE void stmatrix(uint32_t address, const uint32_t (&from)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3])
               : "memory");
}

// The same of 8 × 8 elements of 16 bits, transposed; and of the first two matrices alone.
RAPT_DEVICE void stmatrix_transposed(uint32_t address, const uint32_t (&from)[4]) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
      "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3])
      : "memory");
}
RAPT_DEVICE void stmatrix_transposed(uint32_t address, const uint32_t (&from)[2]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(address),
               "r"(from[0]), "r"(from[1])
               : "memory");
}

// A matrix of 8 × 8 elements of 16 bits in the registers of a warp, two of row l / 4 in lane l,
// transposed.
RAPT_DEVICE uint32_t transpose_matrix(uint32_t from) {
  uint32_t to;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(to) : "r"(from));
  return to;
}

}  // namespace rapt::cuda::ptx
