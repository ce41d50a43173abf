// Kernels of one operation of matrix units each, for any Target that has them: words of every
// thread in, words out. The emulator's tests hold them against the documented layouts, and
// tests/cuda against what a GPU does.
#pragma once

#include "src/gpu/target.hpp"

namespace rapt::test {

struct Words {
  const uint32_t* in;  // (thread, in_words)
  uint32_t* out;       // (thread, out_words)
};

template <class Target, int in, int out, int bytes = 0>
struct MatrixKernel {
  using Parameters = Words;
  static constexpr int threads = 64, blocks = 1, shared_bytes = bytes;
  static constexpr int in_words = in, out_words = out;

  RAPT_DEVICE static const uint32_t* in_of(const Words& words) {
    return words.in + Target::thread() * in;
  }
  RAPT_DEVICE static uint32_t* out_of(const Words& words) {
    return words.out + Target::thread() * out;
  }
};

// In: c (4), a (4), b (2). Out: c (4).
template <class Target, class Element>
struct Multiplies : MatrixKernel<Target, 10, 4> {
  RAPT_DEVICE static void run(const Words& words) {
    const uint32_t* in = Multiplies::in_of(words);
    float c[4];
    uint32_t a[4];
    RAPT_UNROLL
    for (int i = 0; i < 4; ++i) {
      c[i] = __builtin_bit_cast(float, in[i]);
      a[i] = in[4 + i];
    }
    Target::template mma<Element>(c[0], c[1], c[2], c[3], a, in[8], in[9]);
    RAPT_UNROLL
    for (int i = 0; i < 4; ++i) Multiplies::out_of(words)[i] = __builtin_bit_cast(uint32_t, c[i]);
  }
};

// In: 16 bytes of the warp's memory (4), and whose 16 bytes are the lane's row (1). Out: what the
// lane has of four matrices.
template <class Target, bool transposed>
struct LoadsMatrices : MatrixKernel<Target, 5, 4, 64 * 16> {
  RAPT_DEVICE static void run(const Words& words) {
    const uint32_t* in = LoadsMatrices::in_of(words);
    const uint32_t memory = Target::shared_address() + Target::wave() * 32 * 16;
    const uint32_t own[4] = {in[0], in[1], in[2], in[3]};
    Target::store_shared(memory + Target::lane() * 16, own);
    Target::wave_barrier();
    uint32_t to[4];
    if constexpr (transposed)
      Target::ldmatrix_transposed(memory + in[4] * 16, to);
    else
      Target::ldmatrix(memory + in[4] * 16, to);
    RAPT_UNROLL
    for (int i = 0; i < 4; ++i) LoadsMatrices::out_of(words)[i] = to[i];
  }
};

// In: two times 16 bytes, the second of which is wanted if the first word of all is odd. Out: those
// of the next thread, the first read while the second are still on their way.
template <class Target>
struct CopiesAhead : MatrixKernel<Target, 8, 8, 2 * 64 * 16> {
  RAPT_DEVICE static void run(const Words& words) {
    const uint32_t* in = CopiesAhead::in_of(words);
    const uint32_t memory = Target::shared_address(), second = memory + 64 * 16;
    const int own = Target::thread() * 16, next = (Target::thread() + 1) % 64 * 16;
    Target::cp_async(memory + own, in, true);
    Target::cp_async_commit();
    Target::cp_async(second + own, in + 4, in[0] % 2 == 1);
    Target::cp_async_commit();
    Target::cp_async_wait_previous();
    Target::barrier_of_first(64);
    uint32_t four[4];
    Target::load_shared(memory + next, four);
    Target::cp_async_wait_all();
    Target::block_barrier();
    RAPT_UNROLL
    for (int i = 0; i < 4; ++i) {
      CopiesAhead::out_of(words)[i] = four[i];
      CopiesAhead::out_of(words)[4 + i] = Target::load_shared(second + next + i * 4);
    }
  }
};

// In: two f32. Out: both as f16, both as bf16, the low part of the first.
template <class Target>
struct Converts : MatrixKernel<Target, 2, 3> {
  RAPT_DEVICE static void run(const Words& words) {
    const uint32_t* in = Converts::in_of(words);
    const float first = __builtin_bit_cast(float, in[0]), second = __builtin_bit_cast(float, in[1]);
    uint32_t* out = Converts::out_of(words);
    out[0] = Target::template pack_two<F16>(first, second);
    out[1] = Target::template pack_two<BF16>(first, second);
    out[2] = Target::low_part_of_tf32(in[0]);
  }
};

}  // namespace rapt::test
