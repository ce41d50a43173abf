// Matrix products of a warpgroup: D (64, n) += A (64, k) · B (k, n), with f32 sums in registers; k
// is 16 for elements of 16 bits, and 8 for f32, of which the low 13 bits are ignored (TF32).
//
// D lies as d[j][0…3]: warp w, lane l holds rows 16w + l/4 (elements 0, 1) and 8 further down
// (2, 3), columns 8j + 2(l % 4) and the next. A of f16 or bf16 lies likewise, two elements to a
// register: a[0], a[1] the columns 0…7 of both rows, a[2], a[3] the columns 8…15. Of f32, a[0],
// a[1] are column l % 4 of both rows, a[2], a[3] column l % 4 + 4.
//
// Products run behind the program's back. wgmma_fence() comes before the first product that uses
// registers the program wrote; wgmma_commit() closes a batch; wgmma_wait<n>() returns when no more
// than the n youngest batches still run. Until then their registers must not be touched.
#pragma once

#include <stdint.h>

#include "src/cuda/ptx/barrier.cuh"
#include "src/semantics/element.hpp"

namespace rapt::cuda::ptx {

// A matrix in shared memory, in rows of 128 bytes whose 16-byte pieces are swizzled as the copy
// engine does it: 8 rows, 1024 bytes, make an atom. Further columns follow in panels.
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

RAPT_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
RAPT_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int batches>
RAPT_DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(batches) : "memory");
}

// Tells the compiler that registers changed while it did not look.
template <int n>
RAPT_DEVICE void fence_operand(float (&registers)[n][4]) {
  RAPT_UNROLL
  for (int j = 0; j < n; ++j) {
    RAPT_UNROLL
    for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(registers[j][i])::"memory");
  }
}

// mma(d, A, B, add): A in shared memory or in registers, and B K-major. Without `add`, d is
// overwritten. mma_mn_major has B MN-major. Of f32, A is in registers and B K-major.
template <class Element, int n>
struct Wgmma;

#define RAPT_TEN(t) \
  "%" #t "0,%" #t "1,%" #t "2,%" #t "3,%" #t "4,%" #t "5,%" #t "6,%" #t "7,%" #t "8,%" #t "9"
#define RAPT_SUMS(j) "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3])
#define RAPT_SUMS_2(j) RAPT_SUMS(j), RAPT_SUMS(j + 1)
#define RAPT_SUMS_4(j) RAPT_SUMS_2(j), RAPT_SUMS_2(j + 2)
#define RAPT_SUMS_8(j) RAPT_SUMS_4(j), RAPT_SUMS_4(j + 4)
#define RAPT_SUMS_16(j) RAPT_SUMS_8(j), RAPT_SUMS_8(j + 8)

// `sums`: the numbers of n/2 operands; `i0` … `i6`: of those that follow.
#define RAPT_PRODUCT(Element, type, n, sums, i0, i1, i2, i3, i4, i5, i6, ...)                     \
  template <>                                                                                     \
  struct Wgmma<Element, n> {                                                                      \
    RAPT_DEVICE static void mma(float (&d)[n / 8][4], MatrixDescriptor a, MatrixDescriptor b,     \
                                bool add) {                                                       \
      asm volatile("{.reg .pred add; setp.ne.b32 add, %" #i2                                      \
                   ", 0;"                                                                         \
                   "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" sums      \
                   "}, %" #i0 ", %" #i1 ", add, 1, 1, 0, 0;}"                                     \
                   : __VA_ARGS__                                                                  \
                   : "l"(a.descriptor()), "l"(b.descriptor()), "r"(int{add}));                    \
    }                                                                                             \
    RAPT_DEVICE static void mma(float (&d)[n / 8][4], const uint32_t (&a)[4], MatrixDescriptor b, \
                                bool add) {                                                       \
      mma_from_registers<false>(d, a, b, add);                                                    \
    }                                                                                             \
    RAPT_DEVICE static void mma_mn_major(float (&d)[n / 8][4], const uint32_t (&a)[4],            \
                                         MatrixDescriptor b, bool add) {                          \
      mma_from_registers<true>(d, a, b, add);                                                     \
    }                                                                                             \
                                                                                                  \
   private:                                                                                       \
    template <bool columns>                                                                       \
    RAPT_DEVICE static void mma_from_registers(float (&d)[n / 8][4], const uint32_t (&a)[4],      \
                                               MatrixDescriptor b, bool add) {                    \
      asm volatile("{.reg .pred add; setp.ne.b32 add, %" #i5                                      \
                   ", 0;"                                                                         \
                   "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" sums      \
                   "}, {%" #i0 ",%" #i1 ",%" #i2 ",%" #i3 "}, %" #i4 ", add, 1, 1, %" #i6 ";}"    \
                   : __VA_ARGS__                                                                  \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.descriptor()),             \
                     "r"(int{add}), "n"(int{columns}));                                           \
    }                                                                                             \
  };
#define RAPT_PRODUCTS(...)              \
  RAPT_PRODUCT(F16, "f16", __VA_ARGS__) \
  RAPT_PRODUCT(BF16, "bf16", __VA_ARGS__)

#define RAPT_PRODUCT_OF_F32(n, sums, i0, i1, i2, i3, i4, i5, ...)                                 \
  template <>                                                                                     \
  struct Wgmma<float, n> {                                                                        \
    RAPT_DEVICE static void mma(float (&d)[n / 8][4], const uint32_t (&a)[4], MatrixDescriptor b, \
                                bool add) {                                                       \
      asm volatile("{.reg .pred add; setp.ne.b32 add, %" #i5                                      \
                   ", 0;"                                                                         \
                   "wgmma.mma_async.sync.aligned.m64n" #n "k8.f32.tf32.tf32 {" sums "}, {%" #i0   \
                   ",%" #i1 ",%" #i2 ",%" #i3 "}, %" #i4 ", add, 1, 1;}"                          \
                   : __VA_ARGS__                                                                  \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.descriptor()),             \
                     "r"(int{add}));                                                              \
    }                                                                                             \
  };

#define RAPT_30 RAPT_TEN() "," RAPT_TEN(1) "," RAPT_TEN(2)
#define RAPT_60 RAPT_30 "," RAPT_TEN(3) "," RAPT_TEN(4) "," RAPT_TEN(5)
#define RAPT_90 RAPT_60 "," RAPT_TEN(6) "," RAPT_TEN(7) "," RAPT_TEN(8)

RAPT_PRODUCTS(32, RAPT_TEN() ",%10,%11,%12,%13,%14,%15", 16, 17, 18, 19, 20, 21, 22, RAPT_SUMS_4(0))
RAPT_PRODUCTS(64, RAPT_30 ",%30,%31", 32, 33, 34, 35, 36, 37, 38, RAPT_SUMS_8(0))
RAPT_PRODUCTS(96, RAPT_30 "," RAPT_TEN(3) ",%40,%41,%42,%43,%44,%45,%46,%47", 48, 49, 50, 51, 52,
              53, 54, RAPT_SUMS_8(0), RAPT_SUMS_4(8))
RAPT_PRODUCTS(112, RAPT_30 "," RAPT_TEN(3) "," RAPT_TEN(4) ",%50,%51,%52,%53,%54,%55", 56, 57, 58,
              59, 60, 61, 62, RAPT_SUMS_8(0), RAPT_SUMS_4(8), RAPT_SUMS_2(12))
RAPT_PRODUCTS(128, RAPT_60 ",%60,%61,%62,%63", 64, 65, 66, 67, 68, 69, 70, RAPT_SUMS_16(0))
RAPT_PRODUCTS(192, RAPT_90 ",%90,%91,%92,%93,%94,%95", 96, 97, 98, 99, 100, 101, 102,
              RAPT_SUMS_16(0), RAPT_SUMS_8(16))
RAPT_PRODUCTS(256,
              RAPT_90 "," RAPT_TEN(9) "," RAPT_TEN(10) "," RAPT_TEN(
                  11) ",%120,%121,%122,%123,%124,%125,%126,%127",
              128, 129, 130, 131, 132, 133, 134, RAPT_SUMS_16(0), RAPT_SUMS_16(16))

RAPT_PRODUCT_OF_F32(32, RAPT_TEN() ",%10,%11,%12,%13,%14,%15", 16, 17, 18, 19, 20, 21,
                    RAPT_SUMS_4(0))
RAPT_PRODUCT_OF_F32(64, RAPT_30 ",%30,%31", 32, 33, 34, 35, 36, 37, RAPT_SUMS_8(0))
RAPT_PRODUCT_OF_F32(128, RAPT_60 ",%60,%61,%62,%63", 64, 65, 66, 67, 68, 69, RAPT_SUMS_16(0))

#undef RAPT_90
#undef RAPT_60
#undef RAPT_30
#undef RAPT_PRODUCT_OF_F32
#undef RAPT_PRODUCTS
#undef RAPT_PRODUCT
#undef RAPT_SUMS_16
#undef RAPT_SUMS_8
#undef RAPT_SUMS_4
#undef RAPT_SUMS_2
#undef RAPT_SUMS
#undef RAPT_TEN

}  // namespace rapt::cuda::ptx
