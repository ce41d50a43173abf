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

constexpr bool has_odd_sums = panel_vectors == 4;  // of the dims: twice two vectors for each row

Index lanes() { return static_cast<Index>(hn::Lanes(Floats())); }
Index panel_width() { return panel_vectors * lanes(); }
Index panels_of(Index count) { return (count + panel_width() - 1) / panel_width(); }

// Rows a power of two apart would compete for the same few cache sets.
Index query_stride(Index qk_dim) { return qk_dim % 256 == 0 ? qk_dim + 16 : qk_dim; }

Index score_stride(Index tile_keys) { return tile_keys + 16; }

// Equal terms that are added one after another are all rounded the same way. 128 weighted values
// end up to 32 roundings off. Scores have to be better, since what counts is their absolute error:
// 16 products end up to 4.4 roundings off, 32 up to 8.4, and four of their sums, added up, lose
// hardly more.
constexpr Index most_keys = 128;
constexpr Index most_dims = 32;
constexpr Index part_dims = 4 * most_dims;

enum class Into { store, add };

// (rows, vectors) of A·B, stored into c or added to it after c was multiplied by rescale[row].
//   a (rows, depth) with a_stride; b (depth, vectors) with b_stride; c with c_stride
// SVE's vectors have no size known to the compiler, so there are no arrays of them: the
// accumulators are variables, and what is done for each of them is a macro.
#define RAPT_FOR_ROWS(what) what(0) what(1) what(2) what(3) what(4) what(5)
template <int rows, int vectors, Into into>
HWY_INLINE void multiply_panel(const float* HWY_RESTRICT a, Index a_stride,
                               const float* HWY_RESTRICT b, Index b_stride, Index depth,
                               float* HWY_RESTRICT c, Index c_stride,
                               const float* HWY_RESTRICT rescale) {
  const Floats d;
  const Index width = lanes();
#define RAPT_DECLARE(row)                                                            \
  [[maybe_unused]] FloatVector sum##row##0 = hn::Zero(d), sum##row##1 = hn::Zero(d), \
                               sum##row##2 = hn::Zero(d), sum##row##3 = hn::Zero(d);
  RAPT_FOR_ROWS(RAPT_DECLARE)
#undef RAPT_DECLARE

#pragma GCC unroll 2
  for (Index k = 0; k < depth; ++k, b += b_stride) {
    const FloatVector b0 = hn::Load(d, b);
    [[maybe_unused]] FloatVector b1 = b0, b2 = b0, b3 = b0;
    if constexpr (vectors > 1) b1 = hn::Load(d, b + width);
    if constexpr (vectors > 2) b2 = hn::Load(d, b + 2 * width), b3 = hn::Load(d, b + 3 * width);
#define RAPT_STEP(row)                                                             \
  if constexpr (row < rows) {                                                      \
    const FloatVector element = hn::Set(d, a[k + row * a_stride]);                 \
    sum##row##0 = hn::MulAdd(element, b0, sum##row##0);                            \
    if constexpr (vectors > 1) sum##row##1 = hn::MulAdd(element, b1, sum##row##1); \
    if constexpr (vectors > 2) sum##row##2 = hn::MulAdd(element, b2, sum##row##2); \
    if constexpr (vectors > 2) sum##row##3 = hn::MulAdd(element, b3, sum##row##3); \
  }
    RAPT_FOR_ROWS(RAPT_STEP)
#undef RAPT_STEP
  }

  const auto finish = [&](Index row, Index column, FloatVector sum) HWY_ATTR {
    float* to = c + row * c_stride + column * width;
    if constexpr (into == Into::add) {
      const FloatVector factor = hn::Set(d, rescale ? rescale[row] : 1.0f);
      sum = hn::MulAdd(factor, hn::Load(d, to), sum);
    }
    hn::Store(sum, d, to);
  };
#define RAPT_FINISH(row)                                    \
  if constexpr (row < rows) {                               \
    finish(row, 0, sum##row##0);                            \
    if constexpr (vectors > 1) finish(row, 1, sum##row##1); \
    if constexpr (vectors > 2) finish(row, 2, sum##row##2); \
    if constexpr (vectors > 2) finish(row, 3, sum##row##3); \
  }
  RAPT_FOR_ROWS(RAPT_FINISH)
#undef RAPT_FINISH
}

// As multiply_panel, for a number of rows known at run time, group_rows at most.
template <int vectors, Into into, int rows = group_rows>
void multiply(Index row_count, const float* a, Index a_stride, const float* b, Index b_stride,
              Index depth, float* c, Index c_stride, const float* rescale) {
  if constexpr (rows > 1) {
    if (row_count < rows)
      return multiply<vectors, into, rows - 1>(row_count, a, a_stride, b, b_stride, depth, c,
                                               c_stride, rescale);
  }
  multiply_panel<rows, vectors, into>(a, a_stride, b, b_stride, depth, c, c_stride, rescale);
}

// Scores of a few rows and two vectors of keys.
struct FewScores {
  float* to;  // (rows, 2 vectors)
  Index stride;

  HWY_INLINE float* at(Index row, Index column) const {
    return to + row * stride + column * lanes();
  }
};

HWY_INLINE FloatVector both_sums(FloatVector even, FloatVector odd) {
  if constexpr (has_odd_sums) return hn::Add(even, odd);
  return even;
}

// (rows, 2 vectors) of A·B. Where there are registers for it, even dims and odd ones have
// accumulators of their own. Their sums are stored after most_dims, and then added to.
template <int rows>
HWY_INLINE void multiply_part(const float* HWY_RESTRICT a, Index a_stride,
                              const float* HWY_RESTRICT b, Index b_stride, Index depth,
                              FewScores scores) {
  const Floats d;
  const Index width = lanes();
  bool is_first = true;
  do {
    const Index dims = std::min(most_dims, depth);
#define RAPT_DECLARE(row)                                                              \
  [[maybe_unused]] FloatVector even##row##0 = hn::Zero(d), even##row##1 = hn::Zero(d), \
                               odd##row##0 = hn::Zero(d), odd##row##1 = hn::Zero(d);
    RAPT_FOR_ROWS(RAPT_DECLARE)
#undef RAPT_DECLARE
#define RAPT_STEP(row, sums, k)                                    \
  if constexpr (row < rows) {                                      \
    const FloatVector element = hn::Set(d, a[k + row * a_stride]); \
    sums##row##0 = hn::MulAdd(element, sums##_b0, sums##row##0);   \
    sums##row##1 = hn::MulAdd(element, sums##_b1, sums##row##1);   \
  }
#define RAPT_EVEN_STEP(row) RAPT_STEP(row, even, k)
#define RAPT_BOTH_STEPS(row) RAPT_STEP(row, even, k) RAPT_STEP(row, odd, k + 1)
    Index k = 0;
    if constexpr (has_odd_sums) {
      for (; k + 2 <= dims; k += 2, b += 2 * b_stride) {
        const FloatVector even_b0 = hn::Load(d, b), even_b1 = hn::Load(d, b + width);
        const FloatVector odd_b0 = hn::Load(d, b + b_stride);
        const FloatVector odd_b1 = hn::Load(d, b + b_stride + width);
        RAPT_FOR_ROWS(RAPT_BOTH_STEPS)
      }
    }
#pragma GCC unroll 2
    for (; k < dims; ++k, b += b_stride) {
      const FloatVector even_b0 = hn::Load(d, b), even_b1 = hn::Load(d, b + width);
      RAPT_FOR_ROWS(RAPT_EVEN_STEP)
    }
#undef RAPT_BOTH_STEPS
#undef RAPT_EVEN_STEP
#undef RAPT_STEP
#define RAPT_FINISH(row)                                  \
  if constexpr (row < rows) {                             \
    finish(row, 0, both_sums(even##row##0, odd##row##0)); \
    finish(row, 1, both_sums(even##row##1, odd##row##1)); \
  }
    if (is_first) {
      const auto finish = [&](Index row, Index column, FloatVector sum)
                              HWY_ATTR { hn::Store(sum, d, scores.at(row, column)); };
      RAPT_FOR_ROWS(RAPT_FINISH)
    } else {
      const auto finish = [&](Index row, Index column, FloatVector sum) HWY_ATTR {
        float* to = scores.at(row, column);
        hn::Store(hn::Add(sum, hn::Load(d, to)), d, to);
      };
      RAPT_FOR_ROWS(RAPT_FINISH)
    }
#undef RAPT_FINISH
    is_first = false;
    a += dims;
    depth -= dims;
  } while (depth > 0);
}
#undef RAPT_FOR_ROWS

// to += from
HWY_INLINE void add_scores(Index rows, FewScores from, FewScores to) {
  const Floats d;
  for (Index row = 0; row < rows; ++row) {
    for (Index column = 0; column < 2; ++column) {
      float* at = to.at(row, column);
      hn::Store(hn::Add(hn::Load(d, at), hn::Load(d, from.at(row, column))), d, at);
    }
  }
}

// The same over any number of dims, part by part.
template <Into into, int rows>
HWY_NOINLINE void multiply_parts(const float* a, Index a_stride, const float* b, Index b_stride,
                                 Index depth, FewScores scores) {
  constexpr auto room = rows * 2 * hn::MaxLanes(Floats());
  HWY_ALIGN float sum_memory[room], part_memory[room];
  const FewScores part = {part_memory, 2 * lanes()};
  const FewScores sum = into == Into::store ? scores : FewScores{sum_memory, 2 * lanes()};
  for (Index dim = 0; dim < depth; dim += part_dims) {
    multiply_part<rows>(a + dim, a_stride, b + dim * b_stride, b_stride,
                        std::min(part_dims, depth - dim), dim == 0 ? sum : part);
    if (dim > 0) add_scores(rows, part, sum);
  }
  if (into == Into::add) add_scores(rows, sum, scores);
}

// Scores of some rows, group_rows at most, and two vectors of keys.
template <Into into, int rows = group_rows>
void multiply_few(Index row_count, const float* a, Index a_stride, const float* b, Index b_stride,
                  Index depth, FewScores scores) {
  if constexpr (rows > 1) {
    if (row_count < rows)
      return multiply_few<into, rows - 1>(row_count, a, a_stride, b, b_stride, depth, scores);
  }
  if (into == Into::store && depth <= part_dims)
    multiply_part<rows>(a, a_stride, b, b_stride, depth, scores);
  else
    multiply_parts<into, rows>(a, a_stride, b, b_stride, depth, scores);
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
        multiply_few<into>(std::min(group_rows, t.rows - row), queries + row * stride, stride,
                           panel + column, width, t.qk_dim, {to + column, to_stride});
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

// `vectors` vectors of dims, from `dim` on, of all rows' out.
template <int vectors, Into into>
void multiply_dims(const BlockTile& t, Index dim) {
  const Index width = panel_width(), weight_stride = score_stride(t.tile_keys);
  const float* panel =
      static_cast<const float*>(t.values) + dim / width * width * t.tile_keys + dim % width;
  for (Index row = 0, group = 0; row < t.rows; row += group_rows, ++group) {
    const Range seen = t.group_keys[group];
    if (into == Into::add && seen.begin == seen.end) continue;
    const auto product = [&]<Into how>(Index key, const float* rescale) {
      multiply<vectors, how>(std::min(group_rows, t.rows - row),
                             static_cast<const float*>(t.scratch) + row * weight_stride + key,
                             weight_stride, panel + key * width, width,
                             std::min(most_keys, seen.end - key), t.out + row * t.out_stride + dim,
                             t.out_stride, rescale);
    };
    product.template operator()<into>(seen.begin, t.rescale + row);
    for (Index key = seen.begin + most_keys; key < seen.end; key += most_keys)
      product.template operator()<Into::add>(key, nullptr);
  }
}

// Whole panels, then single vectors for what is left of the dims.
template <Into into>
void multiply_out(const BlockTile& t) {
  Index dim = 0;
  for (; dim + panel_width() <= t.v_dim; dim += panel_width())
    multiply_dims<panel_vectors, into>(t, dim);
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
