// What portable GPU kernels are written in.
//
// A kernel is a struct of constants and one function, templated on a Target and a named Config:
//
//   template <class Target, FlashConfig config, class Element>
//   struct Flash {
//     using Parameters = FlashParameters;             plain data, passed by value
//     static constexpr int threads = ...;             of a block, a multiple of 64
//     static constexpr int blocks = ...;              that share a multiprocessor, at least
//     static constexpr int shared_bytes = ...;        64 KiB at most: AMD's limit
//     static constexpr int shared_limit = ...;        only if it is another
//     static constexpr bool follows = true;           only if it always comes right after another
//                                                     kernel of the same call, in the same stream:
//                                                     it may start before that one has ended
//     static constexpr bool most_shared_memory = true;    only if that is to be early, in both
//                                                     kernels: a multiprocessor must be idle to
//                                                     divide its memory between cache and shared
//                                                     memory anew, and so they agree
//     RAPT_DEVICE static void run(const Parameters&); what every thread does
//   };
//
// The Target supplies, as static functions, what a GPU has and C++ has not:
//
//   int wave_size                      32 or 64, a constant where device code is compiled
//   int thread(), block_x(), block_y(), block_z()
//   int lane(), wave()                 of the thread: thread() % wave_size, thread() / wave_size
//   void block_barrier()               all threads of the block; orders shared and global memory
//   void wave_barrier()                all lanes of the wave; orders shared memory
//   T shuffle_xor(T value, int mask)   the value of lane ^ mask; all lanes take part, mask < 32
//   T shuffle(T value, int lane)       the value of a lane of the wave; all lanes take part
//   Shared<T> shared<T>(int byte, int count)   a view of the block's shared memory
//   T load(const T*), void store(T*, T)        global memory; T up to 16 bytes, aligned to its size
//   T load_once(const T*), void store_once(T*, T)   the same, for what nobody reads again
//   T load_fresh(const T*)             the same, for what the kernel that this one follows wrote:
//                                      by no cache that takes memory for constant, as load() may
//   float exp2(float), log2(float)     2^−∞ is 0; log2(0) is −∞
//   float product(float, float)        rounded, and never part of a multiply-add
//   void wait_for_previous()           until the kernel that this one follows has ended: every
//                                      thread, before it reads what that one wrote, or returns
//   int unknown(int)                   the same, though the compiler cannot know: an array that is
//                                      indexed with it lies in memory
//   float to_float(Element), Element from_float<Element>(float)   to nearest, ties to even
//
// A Shared<T> has load(i), store(i, value), and load_vector<n>(i), store_vector(i, Vector<T, n>)
// for i a multiple of n. Targets: src/cuda/target.cuh, src/hip/target.hpp,
// src/emulator/target.hpp.
//
// Targets with matrix units, those whose `bool has_mma` is true, have waves of 32 lanes, called
// warps, and shared memory by addresses of 32 bits:
//
//   void barrier_of_first(int threads)      as block_barrier(), of a block's first threads alone
//   uint32_t shared_address()               of the first byte
//   uint32_t load_shared(uint32_t address)
//   void load_shared(uint32_t address, uint32_t (&words)[4]), store_shared(the same)
//
// Copies from global to shared memory that go on while the thread works. Nobody may touch where
// they go before the thread has waited; others than the thread, before a barrier after that.
//
//   void cp_async(uint32_t to, const void* from, bool wanted)   16 bytes, aligned; zeros where they
//                                           are not wanted, and then `from` is not read
//   void cp_async_commit()                  those begun since the last time become a group
//   void cp_async_wait_previous()           until all groups have arrived, but for the last
//   void cp_async_wait_all()                until all copies have arrived
//
// Fragments of matrices, spread over a warp; all lanes take part. g is lane / 4, t is lane % 4.
//
//   void ldmatrix(uint32_t address, uint32_t (&to)[4])
//        four matrices of 8 rows × 16 bytes: lanes 8 i … 8 i + 7 give the addresses of the rows of
//        matrix i, of which to[i] is word t of row g
//   void ldmatrix_transposed(the same)      of 8 × 8 elements of 16 bits: to[i] is column g of rows
//                                           2 t and 2 t + 1, the first in the low half
//   void mma<Element>(float& c0, c1, c2, c3, const uint32_t (&a)[4], uint32_t b0, b1)
//        c (16, 8) += a (16, k) · b (k, 8), k = 8 for float (TF32: the low 13 bits are ignored), 16
//        for 16-bit elements, two of them in a word. By words of k a lane has
//          a   (g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4)
//          b   (t, g), (t + 4, g)
//          c   (g, 2 t), (g, 2 t + 1), (g + 8, 2 t), (g + 8, 2 t + 1), in f32
//   uint32_t pack_two<Element>(float first, float second)   of 16 bits, the first in the low half
//   uint32_t low_part_of_tf32(uint32_t x)   what mma<float> ignores of an f32, as an f32
//
// A Launcher of each backend has the type Target, and launch<Kernel>(Grid, Parameters, Where).
#pragma once

#include "src/semantics/element.hpp"
#include "src/semantics/portable.hpp"

#if defined(__CUDACC__) || defined(__HIPCC__)
#define RAPT_DEVICE __device__ __forceinline__
#define RAPT_UNROLL _Pragma("unroll")  // before a loop whose arrays are to stay in registers
#define RAPT_UNROLL_BY_4 _Pragma("unroll 4")
#define RAPT_NO_UNROLL _Pragma("unroll 1")
#else
#define RAPT_DEVICE inline
#define RAPT_UNROLL
#define RAPT_UNROLL_BY_4
#define RAPT_NO_UNROLL
#endif

namespace rapt::gpu {

using semantics::Index;

// What one access moves: n elements, aligned to their size all together.
template <class T, int n>
struct alignas(sizeof(T) * n) Vector {
  T at[n];
};

// Blocks of a launch. A GPU takes 2³¹ − 1 of them along x, 65535 along y and z.
struct Grid {
  Index x, y = 1, z = 1;
};
inline constexpr Index most_blocks_x = 0x7fffffff, most_blocks_yz = 65535;
inline constexpr int most_shared_bytes = 64 << 10, most_threads_of_block = 1024;
inline constexpr int most_shared_bytes_with_mma = 99 << 10;  // on every NVIDIA GPU since Ampere

// Shared memory that a kernel may have.
template <class Kernel>
constexpr int shared_limit() {
  if constexpr (requires { Kernel::shared_limit; }) return Kernel::shared_limit;
  return most_shared_bytes;
}

// The Target with load_fresh() for load(), for functions that load.
template <class Target>
struct Fresh : Target {
  template <class T>
  RAPT_DEVICE static T load(const T* from) {
    return Target::load_fresh(from);
  }
};

// All lanes get the sum (or the largest) over groups of `lanes` neighbouring lanes.
template <class Target, int lanes>
RAPT_DEVICE float sum_over(float value) {
  RAPT_UNROLL
  for (int mask = lanes / 2; mask > 0; mask /= 2) value += Target::shuffle_xor(value, mask);
  return value;
}
template <class Target, int lanes>
RAPT_DEVICE float largest_over(float value) {
  RAPT_UNROLL
  for (int mask = lanes / 2; mask > 0; mask /= 2) {
    const float other = Target::shuffle_xor(value, mask);
    value = other > value ? other : value;
  }
  return value;
}

}  // namespace rapt::gpu
