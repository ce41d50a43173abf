// The Target of portable kernels (src/gpu/target.hpp) on NVIDIA GPUs.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "src/cuda/ptx/barrier.cuh"
#include "src/cuda/ptx/cp_async.cuh"
#include "src/cuda/ptx/ldmatrix.cuh"
#include "src/cuda/ptx/mma.cuh"
#include "src/cuda/ptx/pack.cuh"
#include "src/cuda/ptx/shared.cuh"
#include "src/gpu/target.hpp"

namespace rapt::cuda {

extern __shared__ __align__(1024) unsigned char block_memory[];

template <class T>
class Shared {
 public:
  RAPT_DEVICE explicit Shared(T* memory) : memory_(memory) {}
  RAPT_DEVICE T load(int at) const { return memory_[at]; }
  RAPT_DEVICE void store(int at, T value) const { memory_[at] = value; }
  template <int n>
  RAPT_DEVICE gpu::Vector<T, n> load_vector(int at) const {
    return *reinterpret_cast<const gpu::Vector<T, n>*>(memory_ + at);
  }
  template <int n>
  RAPT_DEVICE void store_vector(int at, gpu::Vector<T, n> value) const {
    *reinterpret_cast<gpu::Vector<T, n>*>(memory_ + at) = value;
  }

 private:
  T* memory_;
};

struct Target {
  static constexpr int wave_size = 32;
  static constexpr bool has_mma = true;
  static constexpr unsigned all_lanes = 0xffffffff;

  RAPT_DEVICE static int thread() { return static_cast<int>(threadIdx.x); }
  RAPT_DEVICE static int block_x() { return static_cast<int>(blockIdx.x); }
  RAPT_DEVICE static int block_y() { return static_cast<int>(blockIdx.y); }
  RAPT_DEVICE static int block_z() { return static_cast<int>(blockIdx.z); }
  RAPT_DEVICE static int lane() { return thread() % wave_size; }
  RAPT_DEVICE static int wave() { return thread() / wave_size; }

  RAPT_DEVICE static void block_barrier() { __syncthreads(); }
  RAPT_DEVICE static void wave_barrier() { __syncwarp(); }
  template <class T>
  RAPT_DEVICE static T shuffle_xor(T value, int mask) {
    return __shfl_xor_sync(all_lanes, value, mask);
  }
  template <class T>
  RAPT_DEVICE static T shuffle(T value, int lane) {
    return __shfl_sync(all_lanes, value, lane);
  }

  template <class T>
  RAPT_DEVICE static Shared<T> shared(int byte, int /*count*/) {
    return Shared<T>(reinterpret_cast<T*>(block_memory + byte));
  }

  template <class T>
  RAPT_DEVICE static T load(const T* from) {
    return through_words(from, [](const auto* word) { return __ldg(word); });
  }
  template <class T>
  RAPT_DEVICE static T load_once(const T* from) {
    return through_words(from, [](const auto* word) { return __ldcs(word); });
  }
  template <class T>
  RAPT_DEVICE static T load_fresh(const T* from) {
    return through_words(from, [](const auto* word) { return *word; });
  }
  template <class T>
  RAPT_DEVICE static void store(T* to, T value) {
    *to = value;
  }
  template <class T>
  RAPT_DEVICE static void store_once(T* to, T value) {
    using Word = WordOf<sizeof(T)>::Type;
    Word word;
    memcpy(&word, &value, sizeof(T));
    __stcs(reinterpret_cast<Word*>(to), word);
  }

  RAPT_DEVICE static float exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  }
  RAPT_DEVICE static float log2(float x) { return __log2f(x); }
  RAPT_DEVICE static float product(float x, float y) { return __fmul_rn(x, y); }
  RAPT_DEVICE static float reciprocal(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  }

  RAPT_DEVICE static void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  }
  RAPT_DEVICE static int unknown(int x) {
    asm volatile("" : "+r"(x));
    return x;
  }
  RAPT_DEVICE static float to_float(float x) { return x; }
  RAPT_DEVICE static float to_float(F16 x) { return __half2float(__ushort_as_half(x.bits)); }
  RAPT_DEVICE static float to_float(BF16 x) {
    return __uint_as_float(static_cast<unsigned>(x.bits) << 16);
  }
  template <class Element>
  RAPT_DEVICE static Element from_float(float x) {
    if constexpr (sizeof(Element) == 4) {
      return x;
    } else if constexpr (is_f16<Element>) {
      return {__half_as_ushort(__float2half_rn(x))};
    } else {
      return {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
    }
  }

  // Since Ampere.
  RAPT_DEVICE static void barrier_of_first(int threads) { ptx::named_barrier_sync(0, threads); }
  RAPT_DEVICE static uint32_t shared_address() { return ptx::shared_address(block_memory); }
  RAPT_DEVICE static uint32_t load_shared(uint32_t address) { return ptx::load_shared(address); }
  RAPT_DEVICE static void load_shared(uint32_t address, uint32_t (&words)[4]) {
    ptx::load_shared(address, words);
  }
  RAPT_DEVICE static void store_shared(uint32_t address, const uint32_t (&words)[4]) {
    ptx::store_shared(address, words);
  }
  RAPT_DEVICE static void cp_async(uint32_t to, const void* from, bool wanted) {
    ptx::cp_async(to, from, wanted);
  }
  RAPT_DEVICE static void cp_async_commit() { ptx::cp_async_commit(); }
  RAPT_DEVICE static void cp_async_wait_previous() { ptx::cp_async_wait_previous(); }
  RAPT_DEVICE static void cp_async_wait_all() { ptx::cp_async_wait_all(); }
  RAPT_DEVICE static void ldmatrix(uint32_t address, uint32_t (&to)[4]) {
    ptx::ldmatrix(address, to);
  }
  RAPT_DEVICE static void ldmatrix_transposed(uint32_t address, uint32_t (&to)[4]) {
    ptx::ldmatrix_transposed(address, to);
  }
  template <class Element>
  RAPT_DEVICE static void mma(float& c0, float& c1, float& c2, float& c3, const uint32_t (&a)[4],
                              uint32_t b0, uint32_t b1) {
    ptx::mma<Element>(c0, c1, c2, c3, a, b0, b1);
  }
  template <class Element>
  RAPT_DEVICE static uint32_t pack_two(float first, float second) {
    return ptx::pack_two<Element>(first, second);
  }
  RAPT_DEVICE static uint32_t low_part_of_tf32(uint32_t x) { return ptx::low_part_of_tf32(x); }

 private:
  template <class Element>
  static constexpr bool is_f16 = false;

  // The machine's own types for one access.
  template <int bytes>
  struct WordOf;
  template <class T, class Load>
  RAPT_DEVICE static T through_words(const T* from, Load load_word) {
    using Word = WordOf<sizeof(T)>::Type;
    const Word word = load_word(reinterpret_cast<const Word*>(from));
    T value;
    memcpy(&value, &word, sizeof(T));
    return value;
  }
};

template <>
inline constexpr bool Target::is_f16<F16> = true;

template <>
struct Target::WordOf<1> {
  using Type = unsigned char;
};
template <>
struct Target::WordOf<2> {
  using Type = unsigned short;
};
template <>
struct Target::WordOf<4> {
  using Type = unsigned;
};
template <>
struct Target::WordOf<8> {
  using Type = uint2;
};
template <>
struct Target::WordOf<16> {
  using Type = uint4;
};

}  // namespace rapt::cuda
