// The Target of portable kernels (src/gpu/target.hpp) on AMD GPUs, in builtins of the compiler.
#pragma once

#include "src/gpu/target.hpp"

namespace rapt::hip {

// Pointers that say which memory they mean. Accesses through others look it up at run time.
template <class T>
using GlobalPointer = __attribute__((address_space(1))) T*;
template <class T>
using LocalPointer = __attribute__((address_space(3))) T*;

extern __shared__ __attribute__((aligned(16))) unsigned char block_memory[];

// The machine's own types for one access.
template <int bytes>
struct WordOf;
template <>
struct WordOf<1> {
  using Type = uint8_t;
};
template <>
struct WordOf<2> {
  using Type = uint16_t;
};
template <>
struct WordOf<4> {
  using Type = uint32_t;
};
template <>
struct WordOf<8> {
  using Type = __attribute__((ext_vector_type(2))) uint32_t;
};
template <>
struct WordOf<16> {
  using Type = __attribute__((ext_vector_type(4))) uint32_t;
};
template <class T>
using Word = typename WordOf<sizeof(T)>::Type;

template <class T>
class Shared {
 public:
  RAPT_DEVICE explicit Shared(LocalPointer<T> memory) : memory_(memory) {}
  RAPT_DEVICE T load(int at) const { return memory_[at]; }
  RAPT_DEVICE void store(int at, T value) const { memory_[at] = value; }
  template <int n>
  RAPT_DEVICE gpu::Vector<T, n> load_vector(int at) const {
    using Vector = gpu::Vector<T, n>;
    const Word<Vector> word = *(LocalPointer<const Word<Vector>>)(memory_ + at);
    return __builtin_bit_cast(Vector, word);
  }
  template <int n>
  RAPT_DEVICE void store_vector(int at, gpu::Vector<T, n> value) const {
    using Vector = gpu::Vector<T, n>;
    *(LocalPointer<Word<Vector>>)(memory_ + at) = __builtin_bit_cast(Word<Vector>, value);
  }

 private:
  LocalPointer<T> memory_;
};

struct Target {
#if defined(__GFX9__)  // CDNA
  static constexpr int wave_size = 64;
#else  // RDNA; the host has no use for it
  static constexpr int wave_size = 32;
#endif
  static constexpr bool has_mma = false;

  RAPT_DEVICE static int thread() { return static_cast<int>(__builtin_amdgcn_workitem_id_x()); }
  RAPT_DEVICE static int block_x() { return static_cast<int>(__builtin_amdgcn_workgroup_id_x()); }
  RAPT_DEVICE static int block_y() { return static_cast<int>(__builtin_amdgcn_workgroup_id_y()); }
  RAPT_DEVICE static int block_z() { return static_cast<int>(__builtin_amdgcn_workgroup_id_z()); }
  RAPT_DEVICE static int lane() { return thread() % wave_size; }
  RAPT_DEVICE static int wave() { return thread() / wave_size; }

  RAPT_DEVICE static void block_barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
  }
  RAPT_DEVICE static void wave_barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
    __builtin_amdgcn_wave_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
  }
  RAPT_DEVICE static void wait_for_previous() {}  // a stream's next kernel starts when it has ended
  // Neighbours in fours, and halves of sixteen, change places within an instruction that computes;
  // the other exchanges take a turn of the shared memory's crossbar, without its memory.
  template <class T>
  RAPT_DEVICE static T shuffle_xor(T value, int mask) {
    return through_words(value, [&](int word) {
      switch (mask) {
        case 1: return __builtin_amdgcn_mov_dpp(word, swapped_ones, 0xf, 0xf, true);
        case 2: return __builtin_amdgcn_mov_dpp(word, swapped_twos, 0xf, 0xf, true);
        case 4: return __builtin_amdgcn_ds_swizzle(word, 4 << 10 | 0x1f);
        case 8: return __builtin_amdgcn_mov_dpp(word, swapped_eights, 0xf, 0xf, true);
        case 16: return __builtin_amdgcn_ds_swizzle(word, 16 << 10 | 0x1f);
        default: return __builtin_amdgcn_ds_bpermute((lane() ^ mask) * 4, word);
      }
    });
  }
  template <class T>
  RAPT_DEVICE static T shuffle(T value, int lane) {
    return through_words(value,
                         [&](int word) { return __builtin_amdgcn_ds_bpermute(lane * 4, word); });
  }

  template <class T>
  RAPT_DEVICE static Shared<T> shared(int byte, int /*count*/) {
    return Shared<T>((LocalPointer<T>)(block_memory + byte));
  }

  // By way of a word: what is copied straight into a struct, the compiler takes apart.
  template <class T>
  RAPT_DEVICE static T load(const T* from) {
    const Word<T> word = *(GlobalPointer<const Word<T>>)(from);
    return __builtin_bit_cast(T, word);
  }
  template <class T>
  RAPT_DEVICE static T load_once(const T* from) {
    const Word<T> word = __builtin_nontemporal_load((GlobalPointer<const Word<T>>)(from));
    return __builtin_bit_cast(T, word);
  }
  template <class T>
  RAPT_DEVICE static T load_fresh(const T* from) {
    return load(from);  // no load takes memory for constant
  }
  template <class T>
  RAPT_DEVICE static void store(T* to, T value) {
    *(GlobalPointer<Word<T>>)(to) = __builtin_bit_cast(Word<T>, value);
  }
  template <class T>
  RAPT_DEVICE static void store_once(T* to, T value) {
    __builtin_nontemporal_store(__builtin_bit_cast(Word<T>, value), (GlobalPointer<Word<T>>)(to));
  }

  RAPT_DEVICE static float exp2(float x) { return __builtin_amdgcn_exp2f(x); }
  RAPT_DEVICE static float log2(float x) { return __builtin_amdgcn_logf(x); }
  RAPT_DEVICE static float product(float x, float y) {
#pragma clang fp contract(off)
    return x * y;
  }

  RAPT_DEVICE static int unknown(int x) {
    asm volatile("" : "+v"(x));
    return x;
  }

  RAPT_DEVICE static float to_float(float x) { return x; }
  RAPT_DEVICE static float to_float(F16 x) { return __builtin_bit_cast(_Float16, x); }
  RAPT_DEVICE static float to_float(BF16 x) {
    return __builtin_bit_cast(float, static_cast<uint32_t>(x.bits) << 16);
  }
  template <class Element>
  RAPT_DEVICE static Element from_float(float x) {
    if constexpr (sizeof(Element) == 4) {
      return x;
    } else {
      return __builtin_bit_cast(Element, static_cast<Half<Element>>(x));
    }
  }

 private:
  // Patterns of data-parallel primitives: lanes 1 0 3 2, lanes 2 3 0 1, and a turn by eight.
  static constexpr int swapped_ones = 0xb1, swapped_twos = 0x4e, swapped_eights = 0x128;

  // The compiler's type for an element of 16 bits.
  template <class Element>
  struct HalfOf;
  template <class Element>
  using Half = typename HalfOf<Element>::Type;

  template <class T, class Function>
  RAPT_DEVICE static T through_words(T value, Function exchange) {
    static_assert(sizeof(T) % 4 == 0);
    struct Words {
      int at[sizeof(T) / 4];
    };
    Words words = __builtin_bit_cast(Words, value);
    RAPT_UNROLL
    for (int& word : words.at) word = exchange(word);
    return __builtin_bit_cast(T, words);
  }
};

template <>
struct Target::HalfOf<F16> {
  using Type = _Float16;
};
template <>
struct Target::HalfOf<BF16> {
  using Type = __bf16;
};

}  // namespace rapt::hip
