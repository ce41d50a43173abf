// The Target of portable kernels (src/gpu/target.hpp) on NVIDIA GPUs.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

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
