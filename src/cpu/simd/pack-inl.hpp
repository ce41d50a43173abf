// Packing rows of keys into columns: what both matrix engines do to K.
//
// Included once per target by files that include hwy/foreach_target.h.
#if defined(RAPT_SIMD_PACK_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef RAPT_SIMD_PACK_INL
#undef RAPT_SIMD_PACK_INL
#else
#define RAPT_SIMD_PACK_INL
#endif

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "src/cpu/simd/math-inl.hpp"
#include "src/semantics/visibility.hpp"

HWY_BEFORE_NAMESPACE();
namespace rapt::HWY_NAMESPACE {

// Asks for a row that is packed soon: the processor's own prefetching starts anew with each row.
HWY_INLINE void fetch_row(const void* row, semantics::Index bytes) {
  constexpr semantics::Index line_bytes = 64;
  for (semantics::Index i = 0; i < bytes; i += line_bytes)
    __builtin_prefetch(static_cast<const std::byte*>(row) + i);
}

// Wherever it lies: what moves as f32 may be two bf16, aligned as such.
template <class Element>
HWY_INLINE float element_at(const Element* from, semantics::Index index) {
  Element element;
  const auto* const bytes = reinterpret_cast<const std::byte*>(from);
  std::memcpy(&element, bytes + index * semantics::Index{sizeof element}, sizeof element);
  return to_float(element);
}

// Four rows of `count` elements become four neighbouring columns of `columns` (count, width).
template <class Element>
HWY_INLINE void transpose_four(const Element* const* rows, semantics::Index count,
                               semantics::Index width, float* columns) {
  semantics::Index i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<float, 4> d;
  const hn::RepartitionToWide<decltype(d)> pairs;
  for (; i + 4 <= count; i += 4) {
    const auto k0 = load_floats(d, rows[0] + i), k1 = load_floats(d, rows[1] + i);
    const auto k2 = load_floats(d, rows[2] + i), k3 = load_floats(d, rows[3] + i);
    const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, k0, k1));
    const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, k2, k3));
    const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, k0, k1));
    const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, k2, k3));
    float* to = columns + i * width;
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)), d, to);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)), d, to + width);
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)), d, to + 2 * width);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)), d, to + 3 * width);
  }
#endif
  for (; i < count; ++i) {
    for (semantics::Index column = 0; column < 4; ++column)
      columns[i * width + column] = element_at(rows[column], i);
  }
}

// Rows of `count` elements become columns of one panel (count, width). Row `first` stands in column
// 0; columns whose row is not in `range` become zero.
template <class Element>
void transpose_panel(const void* const* rows, semantics::Range range, semantics::Index first,
                     semantics::Index count, semantics::Index width, float* panel) {
  for (semantics::Index column = 0; column < width;) {
    const semantics::Index row = first + column;
    if (row >= range.begin && row + 4 <= range.end && column + 4 <= width) {
      const Element* four[4];
      for (semantics::Index i = 0; i < 4; ++i) {
        four[i] = static_cast<const Element*>(rows[row + i]);
        if (row + 4 + i < range.end)
          fetch_row(rows[row + 4 + i], count * static_cast<semantics::Index>(sizeof(Element)));
      }
      transpose_four(four, count, width, panel + column);
      column += 4;
      continue;
    }
    const bool inside = row >= range.begin && row < range.end;
    const auto* from = inside ? static_cast<const Element*>(rows[row]) : nullptr;
    for (semantics::Index i = 0; i < count; ++i)
      panel[i * width + column] = inside ? element_at(from, i) : 0.0f;
    ++column;
  }
}

}  // namespace rapt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
