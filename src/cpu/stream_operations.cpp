#include "src/cpu/stream_operations.hpp"

#include "src/cpu/simd/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/cpu/stream_operations.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "src/core/call.hpp"
#include "src/cpu/simd/softmax-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace rapt::HWY_NAMESPACE {
namespace {

using semantics::Index;
using semantics::Range;

constexpr Index line_bytes = 64;
constexpr Index rows_at_once = 4;

Index lanes() { return static_cast<Index>(hn::Lanes(Floats())); }

HWY_INLINE void fetch_next(const StreamedRows& rows, Index row) {
  if (!rows.next) return;
  const auto* from = static_cast<const std::byte*>(rows.next[row]);
  for (Index i = 0; i < rows.next_bytes; i += line_bytes) __builtin_prefetch(from + i);
}

// Eight accumulators, shared out among rows and keys (or rows and vectors of dims). There are no
// arrays of SVE's vectors, hence the macro.
#define RAPT_FOR_SUMS(what) what(0) what(1) what(2) what(3) what(4) what(5) what(6) what(7)
#define RAPT_DECLARE_SUM(i) [[maybe_unused]] FloatVector sum##i = hn::Zero(d);

// scores[row, key] for `rows` · `keys` ≤ 8 pairs.
template <int rows, int keys, class Element>
HWY_INLINE void few_dots(const float* HWY_RESTRICT q, const Element* const* k, Index dim,
                         float* HWY_RESTRICT scores, Index score_stride) {
  const Floats d;
  const Index width = lanes();
  RAPT_FOR_SUMS(RAPT_DECLARE_SUM)
  Index at = 0;
  for (; at + width <= dim; at += width) {
#define RAPT_STEP(i)                                                                             \
  if constexpr (i < rows * keys)                                                                 \
    sum##i = hn::MulAdd(hn::LoadU(d, q + i / keys * dim + at), load_floats(d, k[i % keys] + at), \
                        sum##i);
    RAPT_FOR_SUMS(RAPT_STEP)
#undef RAPT_STEP
  }
#define RAPT_FINISH(i)                                               \
  if constexpr (i < rows * keys) {                                   \
    float dot = hn::GetLane(hn::SumOfLanes(d, sum##i));              \
    for (Index rest = at; rest < dim; ++rest)                        \
      dot += q[i / keys * dim + rest] * to_float(k[i % keys][rest]); \
    scores[i / keys * score_stride + i % keys] = dot;                \
  }
  RAPT_FOR_SUMS(RAPT_FINISH)
#undef RAPT_FINISH
}

// `rows` rows of q against all keys. `fetches`: these are the first rows that meet the keys.
template <int rows, class Element>
void row_dots(const float* q, const StreamedRows& k, float* scores, Index score_stride,
              bool fetches) {
  constexpr int keys = rows <= 2 ? 4 : 2;
  const auto* const* key_rows = reinterpret_cast<const Element* const*>(k.rows);
  Index key = 0;
  for (; key + keys <= k.count; key += keys) {
    if (fetches) {
      for (Index i = 0; i < keys; ++i) fetch_next(k, key + i);
    }
    few_dots<rows, keys>(q, key_rows + key, k.dim, scores + key, score_stride);
  }
  for (; key < k.count; ++key) {
    if (fetches) fetch_next(k, key);
    few_dots<rows, 1>(q, key_rows + key, k.dim, scores + key, score_stride);
  }
}

// Calls function(std::integral_constant rows, first row) for blocks of at most four rows.
template <class Function>
HWY_INLINE void for_row_blocks(Index rows, Function&& function) {
  for (Index row = 0; row < rows; row += rows_at_once) {
    switch (std::min(rows_at_once, rows - row)) {
      case 1: function(std::integral_constant<int, 1>(), row); break;
      case 2: function(std::integral_constant<int, 2>(), row); break;
      case 3: function(std::integral_constant<int, 3>(), row); break;
      default: function(std::integral_constant<int, 4>(), row);
    }
  }
}

void dots(const float* q, Index rows, const StreamedRows& keys, float* scores, Index score_stride) {
  with_element_type(keys.dtype, [&](auto type) {
    for_row_blocks(rows, [&](auto block, Index row) {
      row_dots<block(), decltype(type)>(q + row * keys.dim, keys, scores + row * score_stride,
                                        score_stride, row == 0);
    });
  });
}

// `vectors` vectors of dims, from `dim` on, of `rows` rows of out.
template <int rows, int vectors, class Element>
HWY_INLINE void few_outs(const float* HWY_RESTRICT weights, Index weight_stride,
                         const StreamedRows& v, Index dim, const float* rescale,
                         float* HWY_RESTRICT out, Index out_stride, bool fetches) {
  const Floats d;
  const Index width = lanes();
  RAPT_FOR_SUMS(RAPT_DECLARE_SUM)
  for (Index key = 0; key < v.count; ++key) {
    if (fetches) fetch_next(v, key);
    const auto* value = static_cast<const Element*>(v.rows[key]) + dim;
#define RAPT_STEP(i)                                                            \
  if constexpr (i < rows * vectors)                                             \
    sum##i = hn::MulAdd(hn::Set(d, weights[i / vectors * weight_stride + key]), \
                        load_floats(d, value + i % vectors * width), sum##i);
    RAPT_FOR_SUMS(RAPT_STEP)
#undef RAPT_STEP
  }
#define RAPT_FINISH(i)                                                                         \
  if constexpr (i < rows * vectors) {                                                          \
    float* to = out + i / vectors * out_stride + dim + i % vectors * width;                    \
    hn::StoreU(hn::MulAdd(hn::Set(d, rescale[i / vectors]), hn::LoadU(d, to), sum##i), d, to); \
  }
  RAPT_FOR_SUMS(RAPT_FINISH)
#undef RAPT_FINISH
}
#undef RAPT_FOR_SUMS
#undef RAPT_DECLARE_SUM

template <int rows, class Element>
void row_outs(const float* weights, Index weight_stride, const StreamedRows& v,
              const float* rescale, float* out, Index out_stride, bool fetches) {
  constexpr int vectors = 8 / rows;
  const Index width = lanes();
  Index dim = 0;
  for (; dim + vectors * width <= v.dim; dim += vectors * width)
    few_outs<rows, vectors, Element>(weights, weight_stride, v, dim, rescale, out, out_stride,
                                     fetches && dim == 0);
  for (; dim + width <= v.dim; dim += width)
    few_outs<rows, 1, Element>(weights, weight_stride, v, dim, rescale, out, out_stride, false);
  for (Index row = 0; row < rows; ++row) {
    for (Index rest = dim; rest < v.dim; ++rest) {
      float sum = 0;
      for (Index key = 0; key < v.count; ++key)
        sum += weights[row * weight_stride + key] *
               to_float(static_cast<const Element*>(v.rows[key])[rest]);
      float& to = out[row * out_stride + rest];
      to = to * rescale[row] + sum;
    }
  }
}

void accumulate(const float* weights, Index weight_stride, Index rows, const StreamedRows& values,
                const float* rescale, float* out, Index out_stride) {
  with_element_type(values.dtype, [&](auto type) {
    for_row_blocks(rows, [&](auto block, Index row) {
      row_outs<block(), decltype(type)>(weights + row * weight_stride, weight_stride, values,
                                        rescale + row, out + row * out_stride, out_stride,
                                        row == 0);
    });
  });
}

float softmax(float* scores, Range keys, Index count, float scale, float& row_max, float& row_sum) {
  return softmax_row(scores, keys, {0, count}, scale, row_max, row_sum);
}

void widen(DType dtype, const void* from, Index count, float* to) {
  with_element_type(dtype, [&](auto type) {
    const Floats d;
    const auto* elements = static_cast<const decltype(type)*>(from);
    Index i = 0;
    for (; i + lanes() <= count; i += lanes()) hn::StoreU(load_floats(d, elements + i), d, to + i);
    for (; i < count; ++i) to[i] = to_float(elements[i]);
  });
}

void combine(float* partials, Index stride, const double* factors, Index count, Index dim) {
  constexpr Index dims_at_once = 64;
  for (Index first = 0; first < dim; first += dims_at_once) {
    const Index dims = std::min(dims_at_once, dim - first);
    double sums[dims_at_once] = {};
    for (Index i = 0; i < count; ++i) {
      const float* partial = partials + i * stride + first;
      for (Index d = 0; d < dims; ++d) sums[d] += partial[d] * factors[i];
    }
    for (Index d = 0; d < dims; ++d) partials[first + d] = static_cast<float>(sums[d]);
  }
}

}  // namespace

const StreamOperations& stream_table() {
  static const StreamOperations table = {lanes(), widen, dots, softmax, accumulate, combine};
  return table;
}

}  // namespace rapt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rapt {

const StreamOperations& stream_operations() { RAPT_BEST_TARGET(stream_table()); }

}  // namespace rapt
#endif
