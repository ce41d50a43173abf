// Rows of tensors in global memory, to and from f32 registers.
#pragma once

#include "src/gpu/target.hpp"
#include "src/semantics/call.hpp"

namespace rapt::gpu {

inline constexpr int access_bytes = 16;
template <class Element>
inline constexpr int elements_per_access = access_bytes / static_cast<int>(sizeof(Element));

// Whether rows are read and written 16 bytes at a time: `aligned` rows of whole accesses. The rest
// goes element by element.
template <class Element>
RAPT_DEVICE bool whole_accesses(bool aligned, Index dim) {
  return aligned && dim % elements_per_access<Element> == 0;
}

// Elements as they lie in memory, in 32-bit words: two to a register where they have 16 bits.
template <class Element, int n>
struct RawRow {
  static constexpr int in_word = 4 / static_cast<int>(sizeof(Element));
  Vector<uint32_t, 4> access[n / in_word / 4];

  RAPT_DEVICE uint32_t& word(int i) { return access[i / in_word / 4].at[i / in_word % 4]; }
  RAPT_DEVICE Element at(int i) const {
    const uint32_t word = access[i / in_word / 4].at[i / in_word % 4];
    if constexpr (in_word == 1) {
      return __builtin_bit_cast(Element, word);
    } else {
      return {static_cast<uint16_t>(word >> i % 2 * 16)};
    }
  }
};

// Elements at … at + n − 1 of a row; 0 beyond its end. `n` is a number of whole accesses.
template <class Target, int n, class Element>
RAPT_DEVICE RawRow<Element, n> load_raw_row(const Element* row, Index at, Index dim, bool whole) {
  constexpr int width = elements_per_access<Element>;
  static_assert(n % width == 0);
  RawRow<Element, n> raw = {};
  if (whole) {
    RAPT_UNROLL
    for (int i = 0; i < n; i += width) {
      if (at + i < dim)
        raw.access[i / width] =
            Target::load(reinterpret_cast<const Vector<uint32_t, 4>*>(row + at + i));
    }
  } else {
    RAPT_UNROLL
    for (int i = 0; i < n; ++i) {
      if (at + i >= dim) continue;
      if constexpr (sizeof(Element) == 4) {
        raw.word(i) = __builtin_bit_cast(uint32_t, Target::load(row + at + i));
      } else {
        raw.word(i) |= static_cast<uint32_t>(Target::load(row + at + i).bits) << i % 2 * 16;
      }
    }
  }
  return raw;
}

// The same as f32.
template <class Target, class Element, int n>
RAPT_DEVICE void load_row(const Element* row, Index at, Index dim, bool whole, float (&to)[n]) {
  const RawRow<Element, n> raw = load_raw_row<Target, n>(row, at, dim, whole);
  RAPT_UNROLL
  for (int i = 0; i < n; ++i) to[i] = Target::to_float(raw.at(i));
}

// The other way. `n` is a number of whole accesses, or a power of two that is part of one.
template <class Target, class Element, int n>
RAPT_DEVICE void store_row(Element* row, Index at, Index dim, bool whole, const float (&from)[n]) {
  constexpr int width = n < elements_per_access<Element> ? n : elements_per_access<Element>;
  if (whole) {
    RAPT_UNROLL
    for (int i = 0; i < n; i += width) {
      if (at + i >= dim) continue;
      Vector<Element, width> vector;
      RAPT_UNROLL
      for (int j = 0; j < width; ++j)
        vector.at[j] = Target::template from_float<Element>(from[i + j]);
      Target::store_once(reinterpret_cast<Vector<Element, width>*>(row + at + i), vector);
    }
  } else {
    RAPT_UNROLL
    for (int i = 0; i < n; ++i)
      if (at + i < dim) row[at + i] = Target::template from_float<Element>(from[i]);
  }
}

// Where a row of the result goes: elements of the problem's type, or f32.
template <class Element>
struct OutRow {
  void* row;
  Index dim;
  bool is_f32, whole;

  // `plain`: accesses are known to be whole.
  RAPT_DEVICE OutRow(const semantics::Call& call, semantics::Place place, Index head, bool aligned,
                     bool plain = false)
      : dim(call.v_dim), is_f32(sizeof(Element) == 4 || call.out_is_f32) {
    const Index at = semantics::row_offset(call.out_stride, place, head);
    if (is_f32) {
      row = static_cast<float*>(call.out) + at;
      whole = plain || whole_accesses<float>(aligned, dim);
    } else {
      row = static_cast<Element*>(call.out) + at;
      whole = plain || whole_accesses<Element>(aligned, dim);
    }
  }

  // Elements at … at + n − 1.
  template <class Target, int n>
  RAPT_DEVICE void store(Index at, const float (&from)[n]) const {
    if (is_f32)
      store_row<Target>(static_cast<float*>(row), at, dim, whole, from);
    else
      store_row<Target>(static_cast<Element*>(row), at, dim, whole, from);
  }
};

}  // namespace rapt::gpu
