// Matrix products of a warpgroup: D (64, n) += A (64, k) · B (k, n), with f32 sums in registers; k
// is 16 for elements of 16 bits, and 8 for f32, of which the low 13 bits are ignored (TF32).
//
// D lies as d[j][0…3]: warp w, lane l holds rows 16w + l/4 (elements 0, 1) and 8 further down
// (2, 3), columns 8j + 2(l % 4) and the next. A of f16 or bf16 lies likewise, two elements to a
// register: a[0], a[1] the columns 0…7 of both rows, a[2], a[3] the columns 8…15. Of f32, a[0],
// a[1] are column l % 4 of both rows, a[2], a[3] column l % 4 + 4.
//
// Products run behind the program's back, in batches (wgmma_batches.cuh).
#pragma once

#include <stdint.h>

#include "src/cuda/ptx/shared.cuh"
#include "src/cuda/ptx/wgmma_batches.cuh"
#include "src/cuda/ptx/wgmma_instructions.cuh"
#include "src/semantics/element.hpp"

namespace rapt::cuda::ptx {

// A matrix in shared memory, in rows of 128 bytes whose 16-byte pieces are swizzled as TMA does
// it: 8 rows, 1024 bytes, make an atom. Further columns follow in panels.
class MatrixDescriptor {
 public:
  // Rows are the 64 or n of the product, columns its k.
  RAPT_DEVICE static MatrixDescriptor k_major(const void* at) { return MatrixDescriptor(at, 16); }
  // Rows are the k of the product, columns its n. `panel` bytes lie between panels.
  RAPT_DEVICE static MatrixDescriptor mn_major(const void* at, uint32_t panel) {
    return MatrixDescriptor(at, panel);
  }

  RAPT_DEVICE MatrixDescriptor offset_by(uint32_t bytes) const {
    return MatrixDescriptor(address_and_panel_ + (bytes >> 4));
  }

  RAPT_DEVICE uint64_t descriptor() const {
    constexpr uint64_t swizzle_128 = uint64_t{1} << 62, atom = uint64_t{1024 >> 4} << 32;
    return swizzle_128 | atom | address_and_panel_;
  }

 private:
  RAPT_DEVICE explicit MatrixDescriptor(uint32_t address_and_panel)
      : address_and_panel_(address_and_panel) {}
  RAPT_DEVICE MatrixDescriptor(const void* at, uint32_t panel)
      : address_and_panel_(shared_address(at) >> 4 | panel >> 4 << 16) {
    // Made anew each time: kept in registers, a loop's descriptors would crowd out its sums.
    asm volatile("" : "+r"(address_and_panel_));
  }

  uint32_t address_and_panel_;  // both in 16 bytes, 16 bits each
};

// D = A · B, or D += A · B with `add`. Of f32, A is in registers and B K-major.
template <class Element, int n>
struct Wgmma {
  using Sums = float[n / 8][4];  // D (64, n)

  // A in shared memory or in registers, B K-major.
  RAPT_DEVICE static void mma(Sums& d, MatrixDescriptor a, MatrixDescriptor b, bool add) {
    WgmmaInstruction<Element, n>::from_shared(d, a.descriptor(), b.descriptor(), add);
  }
  RAPT_DEVICE static void mma(Sums& d, const uint32_t (&a)[4], MatrixDescriptor b, bool add) {
    WgmmaInstruction<Element, n>::from_registers(d, a, b.descriptor(), add);
  }
  // A and B in shared memory, both MN-major: rows of either are the k of the product.
  RAPT_DEVICE static void mma_both_mn_major(Sums& d, MatrixDescriptor a, MatrixDescriptor b,
                                            bool add) {
    WgmmaInstruction<Element, n>::template from_shared<true, true>(d, a.descriptor(),
                                                                   b.descriptor(), add);
  }
  // Both in shared memory, A alone MN-major.
  RAPT_DEVICE static void mma_a_mn_major(Sums& d, MatrixDescriptor a, MatrixDescriptor b,
                                         bool add) {
    WgmmaInstruction<Element, n>::template from_shared<true, false>(d, a.descriptor(),
                                                                    b.descriptor(), add);
  }
  // B MN-major.
  RAPT_DEVICE static void mma_mn_major(Sums& d, const uint32_t (&a)[4], MatrixDescriptor b,
                                       bool add) {
    WgmmaInstruction<Element, n>::template from_registers<true>(d, a, b.descriptor(), add);
  }
};

}  // namespace rapt::cuda::ptx
