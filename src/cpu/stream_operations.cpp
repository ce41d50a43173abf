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
// Terms that an accumulator adds one after another. Equal ones are all rounded the same way: 8 end
// up to 2.4 roundings off, 16 up to 4.4. Four of their sums, added up, hardly lose more.
constexpr Index most_dims = 8;  // vectors of them
constexpr Index most_keys = 16;

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
#define RAPT_DECLARE_TOTAL(i) [[maybe_unused]] FloatVector total##i = hn::Zero(d);
#define RAPT_ADD_SUM(i) total##i = hn::Add(total##i, sum##i);

// How the products of a row and a key are added up: one after another, in sums of most_dims
// vectors, or in such sums four of which make a total.
enum class Dims { few, many, wide };

// scores[row, key] for `rows` · `keys` ≤ 8 pairs.
template <int rows, int keys, Dims dims, class Element>
HWY_INLINE void few_dots(const float* HWY_RESTRICT q, const Element* const* k, Index dim,
                         float* HWY_RESTRICT scores, Index score_stride) {
  const Floats d;
  const Index width = lanes(), whole = dim / width * width;
  using Dot = std::conditional_t<dims == Dims::wide, double, float>;
#define RAPT_DECLARE_DOT(i) [[maybe_unused]] Dot dot##i = 0;
  RAPT_FOR_SUMS(RAPT_DECLARE_DOT)
#undef RAPT_DECLARE_DOT
  Index at = 0;
  do {
    RAPT_FOR_SUMS(RAPT_DECLARE_TOTAL)
    const Index total_end =
        dims == Dims::wide ? std::min(at + 4 * most_dims * width, whole) : whole;
    do {
      RAPT_FOR_SUMS(RAPT_DECLARE_SUM)
      const Index end = dims == Dims::few ? total_end : std::min(at + most_dims * width, total_end);
      for (; at < end; at += width) {
#define RAPT_STEP(i)                                                                             \
  if constexpr (i < rows * keys)                                                                 \
    sum##i = hn::MulAdd(hn::LoadU(d, q + i / keys * dim + at), load_floats(d, k[i % keys] + at), \
                        sum##i);
        RAPT_FOR_SUMS(RAPT_STEP)
#undef RAPT_STEP
      }
      if constexpr (dims == Dims::few) {
#define RAPT_TAKE_SUM(i) total##i = sum##i;
        RAPT_FOR_SUMS(RAPT_TAKE_SUM)
#undef RAPT_TAKE_SUM
      } else {
        RAPT_FOR_SUMS(RAPT_ADD_SUM)
      }
    } while (dims != Dims::few && at < total_end);
#define RAPT_REDUCE(i)                                        \
  if constexpr (i < rows * keys) {                            \
    const Dot sum = hn::GetLane(hn::SumOfLanes(d, total##i)); \
    dot##i = dims == Dims::wide ? dot##i + sum : sum;         \
  }
    RAPT_FOR_SUMS(RAPT_REDUCE)
#undef RAPT_REDUCE
  } while (dims == Dims::wide && at < whole);
  if (whole < dim) {
#define RAPT_ADD_REST(i)                                              \
  if constexpr (i < rows * keys) {                                    \
    float rest = 0;                                                   \
    for (Index last = whole; last < dim; ++last)                      \
      rest += q[i / keys * dim + last] * to_float(k[i % keys][last]); \
    dot##i += rest;                                                   \
  }
    RAPT_FOR_SUMS(RAPT_ADD_REST)
#undef RAPT_ADD_REST
  }
#define RAPT_STORE(i)            \
  if constexpr (i < rows * keys) \
    scores[i / keys * score_stride + i % keys] = static_cast<float>(dot##i);
  RAPT_FOR_SUMS(RAPT_STORE)
#undef RAPT_STORE
}

// `rows` rows of q against all keys. `fetches`: these are the first rows that meet the keys.
template <int rows, Dims dims, class Element>
void row_dots(const float* q, const StreamedRows& k, float* scores, Index score_stride,
              bool fetches) {
  constexpr int keys = rows <= 2 ? 4 : 2;
  const auto* const* key_rows = reinterpret_cast<const Element* const*>(k.rows);
  Index key = 0;
  for (; key + keys <= k.count; key += keys) {
    if (fetches) {
      for (Index i = 0; i < keys; ++i) fetch_next(k, key + i);
    }
    few_dots<rows, keys, dims>(q, key_rows + key, k.dim, scores + key, score_stride);
  }
  for (; key < k.count; ++key) {
    if (fetches) fetch_next(k, key);
    few_dots<rows, 1, dims>(q, key_rows + key, k.dim, scores + key, score_stride);
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
      const Index vectors = keys.dim / lanes();
      const auto run = vectors <= most_dims       ? row_dots<block(), Dims::few, decltype(type)>
                       : vectors <= 4 * most_dims ? row_dots<block(), Dims::many, decltype(type)>
                                                  : row_dots<block(), Dims::wide, decltype(type)>;
      run(q + row * keys.dim, keys, scores + row * score_stride, score_stride, row == 0);
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
  RAPT_FOR_SUMS(RAPT_DECLARE_TOTAL)
  for (Index key = 0; key < v.count;) {
    RAPT_FOR_SUMS(RAPT_DECLARE_SUM)
    const Index end = std::min(key + most_keys, v.count);
    for (; key < end; ++key) {
      if (fetches) fetch_next(v, key);
      const auto* value = static_cast<const Element*>(v.rows[key]) + dim;
#define RAPT_STEP(i)                                                            \
  if constexpr (i < rows * vectors)                                             \
    sum##i = hn::MulAdd(hn::Set(d, weights[i / vectors * weight_stride + key]), \
                        load_floats(d, value + i % vectors * width), sum##i);
      RAPT_FOR_SUMS(RAPT_STEP)
#undef RAPT_STEP
    }
    RAPT_FOR_SUMS(RAPT_ADD_SUM)
  }
#define RAPT_FINISH(i)                                                                           \
  if constexpr (i < rows * vectors) {                                                            \
    float* to = out + i / vectors * out_stride + dim + i % vectors * width;                      \
    hn::StoreU(hn::MulAdd(hn::Set(d, rescale[i / vectors]), hn::LoadU(d, to), total##i), d, to); \
  }
  RAPT_FOR_SUMS(RAPT_FINISH)
#undef RAPT_FINISH
}
#undef RAPT_FOR_SUMS
#undef RAPT_DECLARE_SUM
#undef RAPT_DECLARE_TOTAL
#undef RAPT_ADD_SUM

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
      double sum = 0;
      for (Index key = 0; key < v.count; ++key)
        sum += double{weights[row * weight_stride + key]} *
               to_float(static_cast<const Element*>(v.rows[key])[rest]);
      float& to = out[row * out_stride + rest];
      to = to * rescale[row] + static_cast<float>(sum);
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
