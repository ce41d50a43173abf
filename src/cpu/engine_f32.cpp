// The matrix engine on vectors of f32. f16 and bf16 are widened as they are packed.
//
// Packed, with a `panel` of two or four vectors:
//   Q  (rows, qk_dim), rows padded so that they do not share cache sets
//   K  (panels of keys, qk_dim, panel)            a key's elements stand in one column
//   V  (panels of v_dim, tile keys, panel)
// Both products are then much the same loop: some rows of A, read element by element, times a panel
// of B, read in order, into 12 or 24 vector accumulators.
#include "src/cpu/simd/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/cpu/engine_f32.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "src/core/call.hpp"
#include "src/cpu/engine.hpp"
#include "src/cpu/simd/pack-inl.hpp"
#include "src/cpu/simd/softmax-inl.hpp"

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

Index lanes() { return static_cast<Index>(hn::Lanes(Floats())); }
Index panel_width() { return panel_vectors * lanes(); }
Index panels_of(Index count) { return (count + panel_width() - 1) / panel_width(); }

// Rows a power of two apart would compete for the same few cache sets.
Index query_stride(Index qk_dim) { return qk_dim % 256 == 0 ? qk_dim + 16 : qk_dim; }

Index score_stride(Index tile_keys) { return tile_keys + 16; }

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

// (rows, columns) of A·B:  a (rows, depth) with a_stride; b (depth, columns) with b_stride. Where
// there are registers for it, even terms and odd ones have accumulators of their own. Their sums
// are stored after most_terms, and then added to. SVE's vectors have no size known to the compiler,
// so there are no arrays of them: the accumulators are variables, and what is done for each of them
// is a macro.
#define RAPT_FOR_ROWS(what) what(0) what(1) what(2) what(3) what(4) what(5)
template <int rows, int columns, Index most_terms>
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
#define RAPT_STEP(row, sum, k)                                                           \
  if constexpr (row < rows) {                                                            \
    const FloatVector element = hn::Set(d, a[k + row * a_stride]);                       \
    sum##row##0 = hn::MulAdd(element, sum##_b0, sum##row##0);                            \
    if constexpr (columns > 1) sum##row##1 = hn::MulAdd(element, sum##_b1, sum##row##1); \
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
    a += terms;
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
template <int rows, int columns, Index most_terms, Into into>
HWY_NOINLINE void multiply_parts(const float* a, Index a_stride, const float* b, Index b_stride,
                                 Index depth, Sums sums, const float* rescale) {
  constexpr auto room = rows * columns * hn::MaxLanes(Floats());
  HWY_ALIGN float whole_memory[room], part_memory[room];
  const Sums part = {part_memory, columns * lanes()};
  const Sums whole = into == Into::store ? sums : Sums{whole_memory, columns * lanes()};
  for (Index k = 0; k < depth; k += 4 * most_terms) {
    multiply_part<rows, columns, most_terms>(a + k, a_stride, b + k * b_stride, b_stride,
                                             std::min(4 * most_terms, depth - k),
                                             k == 0 ? whole : part);
    if (k > 0) add_sums<rows, columns>(part, whole, nullptr);
  }
  if (into == Into::add) add_sums<rows, columns>(whole, sums, rescale);
}

// For a number of rows known at run time, group_rows at most. The sums are stored, or added after
// what is there was multiplied by rescale[row].
template <int columns, Index most_terms, Into into, int rows = group_rows>
void multiply(Index row_count, const float* a, Index a_stride, const float* b, Index b_stride,
              Index depth, Sums sums, const float* rescale) {
  if constexpr (rows > 1) {
    if (row_count < rows)
      return multiply<columns, most_terms, into, rows - 1>(row_count, a, a_stride, b, b_stride,
                                                           depth, sums, rescale);
  }
  if (into == Into::store && depth <= 4 * most_terms)
    multiply_part<rows, columns, most_terms>(a, a_stride, b, b_stride, depth, sums);
  else
    multiply_parts<rows, columns, most_terms, into>(a, a_stride, b, b_stride, depth, sums, rescale);
}

template <Into into>
void multiply_scores(const BlockTile& t) {
  const auto* queries = static_cast<const float*>(t.queries);
  const Index stride = query_stride(t.qk_dim), width = panel_width();
  const Index to_stride = score_stride(t.tile_keys);
  for (Index key = 0; key < t.tile_keys; key += width) {
    const float* panel = static_cast<const float*>(t.keys) + key * t.qk_dim;
    for (Index row = 0, group = 0; row < t.rows; row += group_rows, ++group) {
      const Range seen = t.group_keys[group];
      if (key >= seen.end || key + width <= seen.begin) continue;
      float* to = static_cast<float*>(t.scratch) + row * to_stride + key;
      for (Index column = 0; column < width; column += 2 * lanes()) {
        multiply<2, most_dims, into>(std::min(group_rows, t.rows - row), queries + row * stride,
                                     stride, panel + column, width, t.qk_dim,
                                     {to + column, to_stride}, nullptr);
      }
    }
  }
}

// Weights take the place of scores.
void weigh(const BlockTile& t) {
  auto* scores = static_cast<float*>(t.scratch);
  for (Index row = 0; row < t.rows; ++row, scores += score_stride(t.tile_keys)) {
    const Range keys = t.row_keys[row];
    if (t.score_row && keys.begin < keys.end) t.score_row(t, row, keys, scores + keys.begin);
    t.rescale[row] = softmax_row(scores, keys, t.group_keys[row / group_rows], t.score_scale,
                                 t.reference[row], t.row_sum[row]);
  }
}

// `columns` vectors of dims, from `dim` on, of all rows' out.
template <int columns, Into into>
void multiply_dims(const BlockTile& t, Index dim) {
  const Index width = panel_width(), weight_stride = score_stride(t.tile_keys);
  const float* panel =
      static_cast<const float*>(t.values) + dim / width * width * t.tile_keys + dim % width;
  for (Index row = 0, group = 0; row < t.rows; row += group_rows, ++group) {
    const Range seen = t.group_keys[group];
    if (into == Into::add && seen.begin == seen.end) continue;
    multiply<columns, most_keys, into>(
        std::min(group_rows, t.rows - row),
        static_cast<const float*>(t.scratch) + row * weight_stride + seen.begin, weight_stride,
        panel + seen.begin * width, width, seen.end - seen.begin,
        {t.out + row * t.out_stride + dim, t.out_stride}, t.rescale + row);
  }
}

// Two vectors at a time, then a single one if it is left of the dims.
template <Into into>
void multiply_out(const BlockTile& t) {
  Index dim = 0;
  for (; dim + 2 * lanes() <= t.v_dim; dim += 2 * lanes()) multiply_dims<2, into>(t, dim);
  for (; dim < t.v_dim; dim += lanes()) multiply_dims<1, into>(t, dim);
}

void attend(const BlockTile& t) {
  multiply_scores<Into::store>(t);
  weigh(t);
  multiply_out<Into::add>(t);
}

template <class Element>
void pack_query_rows(const void* const* rows, Index count, Index qk_dim, float* packed) {
  const Floats d;
  for (Index row = 0; row < count; ++row, packed += query_stride(qk_dim)) {
    const auto* from = static_cast<const Element*>(rows[row]);
    if (row + 2 < count) fetch_row(rows[row + 2], qk_dim * Index{sizeof(Element)});
    Index i = 0;
    for (; i + lanes() <= qk_dim; i += lanes()) hn::StoreU(load_floats(d, from + i), d, packed + i);
    for (; i < qk_dim; ++i) packed[i] = to_float(from[i]);
  }
}

template <class Element>
void pack_key_panels(const void* const* rows, Range keys, Index qk_dim, float* packed) {
  const Index width = panel_width();
  for (Index first = keys.begin / width * width; first < keys.end; first += width)
    transpose_panel<Element>(rows, keys, first, qk_dim, width, packed + first * qk_dim);
}

template <class Element>
void pack_value_panels(const void* const* rows, Range keys, Index tile_keys, Index v_dim,
                       float* packed) {
  const Floats d;
  const Index width = panel_width();
  for (Index key = keys.begin; key < keys.end; ++key) {
    const auto* from = static_cast<const Element*>(rows[key]);
    if (key + 2 < keys.end) fetch_row(rows[key + 2], v_dim * Index{sizeof(Element)});
    const auto at = [&](Index dim) {
      return packed + (dim / width * tile_keys + key) * width + dim % width;
    };
    Index dim = 0;
    for (; dim + lanes() <= v_dim; dim += lanes())
      hn::Store(load_floats(d, from + dim), d, at(dim));
    if (dim == v_dim) continue;
    float* to = at(dim);
    std::fill_n(to, lanes(), 0.0f);
    for (; dim < v_dim; ++dim, ++to) *to = to_float(from[dim]);
  }
}

void pack_queries(DType dtype, const void* const* rows, Index count, Index qk_dim, void* packed) {
  with_element_type(dtype, [&](auto type) {
    pack_query_rows<decltype(type)>(rows, count, qk_dim, static_cast<float*>(packed));
  });
}
void pack_keys(DType dtype, const void* const* rows, Range keys, Index qk_dim, void* packed) {
  with_element_type(dtype, [&](auto type) {
    pack_key_panels<decltype(type)>(rows, keys, qk_dim, static_cast<float*>(packed));
  });
}
void pack_values(DType dtype, const void* const* rows, Range keys, Index tile_keys, Index v_dim,
                 void* packed) {
  with_element_type(dtype, [&](auto type) {
    pack_value_panels<decltype(type)>(rows, keys, tile_keys, v_dim, static_cast<float*>(packed));
  });
}

Index queries_bytes(Index rows, Index qk_dim) { return rows * query_stride(qk_dim) * 4; }
Index keys_bytes(Index tile_keys, Index qk_dim) { return tile_keys * qk_dim * 4; }
Index values_bytes(Index tile_keys, Index v_dim) {
  return panels_of(v_dim) * panel_width() * tile_keys * 4;
}
Index scratch_bytes(Index rows, Index tile_keys) { return rows * score_stride(tile_keys) * 4; }
void nothing() {}

}  // namespace

const Engine& vector_engine() {
  static const Engine table = {
      .group_rows = group_rows,
      .panel = panel_width(),
      .queries_bytes = queries_bytes,
      .keys_bytes = keys_bytes,
      .values_bytes = values_bytes,
      .scratch_bytes = scratch_bytes,
      .pack_queries = pack_queries,
      .pack_keys = pack_keys,
      .pack_values = pack_values,
      .enter = nothing,
      .leave = nothing,
      .attend = attend,
      .set_scores = multiply_scores<Into::store>,
      .add_scores = multiply_scores<Into::add>,
      .weigh = weigh,
      .set_out = multiply_out<Into::store>,
      .add_out = multiply_out<Into::add>,
  };
  return table;
}

}  // namespace rapt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rapt {

const Engine& f32_engine() { RAPT_BEST_TARGET(vector_engine()); }

}  // namespace rapt
#endif
