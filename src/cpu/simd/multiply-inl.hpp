// Products of small matrices on vectors of f32: some rows of A, read element by element, times a
// panel of B, read in order, into 12 or 24 vector accumulators. What the f32 engines of forward and
// backward are made of.
//
// Included once per target by files that include hwy/foreach_target.h.
#if defined(RAPT_SIMD_MULTIPLY_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef RAPT_SIMD_MULTIPLY_INL
#undef RAPT_SIMD_MULTIPLY_INL
#else
#define RAPT_SIMD_MULTIPLY_INL
#endif

#include <algorithm>

#include "src/cpu/simd/math-inl.hpp"
#include "src/semantics/visibility.hpp"

HWY_BEFORE_NAMESPACE();
namespace rapt::HWY_NAMESPACE {
namespace {

using semantics::Index;
using semantics::Range;

// Six rows of accumulators, as wide as the registers hold beside B's vectors and an element of A.
constexpr Index group_rows = 6;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SCALAR
constexpr int panel_vectors = 2;  // of 16 registers
#else
constexpr int panel_vectors = 4;  // of 32 registers
#endif

constexpr bool has_odd_sums = panel_vectors == 4;  // accumulators for odd terms

HWY_INLINE Index lanes() { return static_cast<Index>(hn::Lanes(Floats())); }
HWY_INLINE Index panel_width() { return panel_vectors * lanes(); }

// Rows a power of two apart would compete for the same few cache sets.
HWY_INLINE Index query_stride(Index qk_dim) { return qk_dim % 256 == 0 ? qk_dim + 16 : qk_dim; }

// Equal terms that are added one after another are all rounded the same way: 32 end up to 8.4
// roundings off, 64 up to 16, and four of their sums, added up, lose hardly more. Of these terms an
// accumulator adds half where there are two for each sum.
constexpr Index most_dims = has_odd_sums ? 64 : 32;
constexpr Index most_keys = 64;

enum class Into { store, add };

// Sums of a few rows and `columns` vectors.
struct Sums {
  float* first;  // (rows, columns)
  Index stride;

  HWY_INLINE float* at(Index row, Index column) const {
    return first + row * stride + column * lanes();
  }
};

HWY_INLINE FloatVector both_sums(FloatVector even, FloatVector odd) {
  if constexpr (has_odd_sums) return hn::Add(even, odd);
  return even;
}

// How A lies in memory: (rows, depth), or as a matrix of which the transpose is wanted.
enum class Lies { by_rows, by_columns };

// (rows, columns) of A·B:  a (rows, depth) with a_stride, or (depth, rows); b (depth, columns) with
// b_stride. Where
// there are registers for it, even terms and odd ones have accumulators of their own. Their sums
// are stored after most_terms, and then added to. SVE's vectors have no size known to the compiler,
// so there are no arrays of them: the accumulators are variables, and what is done for each of them
// is a macro.
#define RAPT_FOR_ROWS(what) what(0) what(1) what(2) what(3) what(4) what(5)
template <int rows, int columns, Index most_terms, Lies lies>
HWY_INLINE void multiply_part(const float* HWY_RESTRICT a, Index a_stride,
                              const float* HWY_RESTRICT b, Index b_stride, Index depth, Sums sums) {
  const Floats d;
  const Index width = columns > 1 ? lanes() : 0;  // to the second column, if there is one
  bool is_first = true;
  do {
    const Index terms = std::min(most_terms, depth);
#define RAPT_DECLARE(row)                                                              \
  [[maybe_unused]] FloatVector even##row##0 = hn::Zero(d), even##row##1 = hn::Zero(d), \
                               odd##row##0 = hn::Zero(d), odd##row##1 = hn::Zero(d);
    RAPT_FOR_ROWS(RAPT_DECLARE)
#undef RAPT_DECLARE
#define RAPT_STEP(row, sum, k)                                                               \
  if constexpr (row < rows) {                                                                \
    const FloatVector element =                                                              \
        hn::Set(d, lies == Lies::by_rows ? a[(k) + row * a_stride] : a[(k)*a_stride + row]); \
    sum##row##0 = hn::MulAdd(element, sum##_b0, sum##row##0);                                \
    if constexpr (columns > 1) sum##row##1 = hn::MulAdd(element, sum##_b1, sum##row##1);     \
  }
#define RAPT_EVEN_STEP(row) RAPT_STEP(row, even, k)
#define RAPT_BOTH_STEPS(row) RAPT_STEP(row, even, k) RAPT_STEP(row, odd, k + 1)
    Index k = 0;
    if constexpr (has_odd_sums) {
      for (; k + 2 <= terms; k += 2, b += 2 * b_stride) {
        const FloatVector even_b0 = hn::Load(d, b), odd_b0 = hn::Load(d, b + b_stride);
        [[maybe_unused]] const FloatVector even_b1 = hn::Load(d, b + width);
        [[maybe_unused]] const FloatVector odd_b1 = hn::Load(d, b + b_stride + width);
        RAPT_FOR_ROWS(RAPT_BOTH_STEPS)
      }
    }
#pragma GCC unroll 2
    for (; k < terms; ++k, b += b_stride) {
      const FloatVector even_b0 = hn::Load(d, b);
      [[maybe_unused]] const FloatVector even_b1 = hn::Load(d, b + width);
      RAPT_FOR_ROWS(RAPT_EVEN_STEP)
    }
#undef RAPT_BOTH_STEPS
#undef RAPT_EVEN_STEP
#undef RAPT_STEP
#define RAPT_FINISH(row)                                                             \
  if constexpr (row < rows) {                                                        \
    finish(row, 0, both_sums(even##row##0, odd##row##0));                            \
    if constexpr (columns > 1) finish(row, 1, both_sums(even##row##1, odd##row##1)); \
  }
    if (is_first) {
      const auto finish = [&](Index row, Index column, FloatVector sum)
                              HWY_ATTR { hn::Store(sum, d, sums.at(row, column)); };
      RAPT_FOR_ROWS(RAPT_FINISH)
    } else {
      const auto finish = [&](Index row, Index column, FloatVector sum) HWY_ATTR {
        float* to = sums.at(row, column);
        hn::Store(hn::Add(sum, hn::Load(d, to)), d, to);
      };
      RAPT_FOR_ROWS(RAPT_FINISH)
    }
#undef RAPT_FINISH
    is_first = false;
    a += lies == Lies::by_rows ? terms : terms * a_stride;
    depth -= terms;
  } while (depth > 0);
}
#undef RAPT_FOR_ROWS

// to = to · rescale[row] + from; null: to + from
template <int rows, int columns>
HWY_INLINE void add_sums(Sums from, Sums to, const float* rescale) {
  const Floats d;
  for (Index row = 0; row < rows; ++row) {
    const FloatVector factor = hn::Set(d, rescale ? rescale[row] : 1.0f);
    for (Index column = 0; column < columns; ++column) {
      float* at = to.at(row, column);
      hn::Store(hn::MulAdd(factor, hn::Load(d, at), hn::Load(d, from.at(row, column))), d, at);
    }
  }
}

// The same over any number of terms, four sums of most_terms at a time; and added.
template <int rows, int columns, Index most_terms, Into into, Lies lies>
HWY_NOINLINE void multiply_parts(const float* a, Index a_stride, const float* b, Index b_stride,
                                 Index depth, Sums sums, const float* rescale) {
  constexpr auto room = rows * columns * hn::MaxLanes(Floats());
  HWY_ALIGN float whole_memory[room], part_memory[room];
  const Sums part = {part_memory, columns * lanes()};
  const Sums whole = into == Into::store ? sums : Sums{whole_memory, columns * lanes()};
  for (Index k = 0; k < depth; k += 4 * most_terms) {
    multiply_part<rows, columns, most_terms, lies>(
        a + (lies == Lies::by_rows ? k : k * a_stride), a_stride, b + k * b_stride, b_stride,
        std::min(4 * most_terms, depth - k), k == 0 ? whole : part);
    if (k > 0) add_sums<rows, columns>(part, whole, nullptr);
  }
  if (into == Into::add) add_sums<rows, columns>(whole, sums, rescale);
}

// For a number of rows known at run time, group_rows at most. The sums are stored, or added after
// what is there was multiplied by rescale[row].
template <int columns, Index most_terms, Into into, Lies lies = Lies::by_rows,
          int rows = group_rows>
void multiply(Index row_count, const float* a, Index a_stride, const float* b, Index b_stride,
              Index depth, Sums sums, const float* rescale) {
  if constexpr (rows > 1) {
    if (row_count < rows)
      return multiply<columns, most_terms, into, lies, rows - 1>(row_count, a, a_stride, b,
                                                                 b_stride, depth, sums, rescale);
  }
  if (into == Into::store && depth <= 4 * most_terms)
    multiply_part<rows, columns, most_terms, lies>(a, a_stride, b, b_stride, depth, sums);
  else
    multiply_parts<rows, columns, most_terms, into, lies>(a, a_stride, b, b_stride, depth, sums,
                                                          rescale);
}

}  // namespace
}  // namespace rapt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
