#include "src/cpu/backward_engine.hpp"

#include "src/cpu/simd/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/cpu/backward_engine.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "src/cpu/row_operations.hpp"
#include "src/cpu/simd/multiply-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace rapt::HWY_NAMESPACE {
namespace {

constexpr Index matrix_stride = backward_tile_keys + 16;

// to = A · columns of B, for the panels that hold t.keys.
void multiply_pairs(const GradientTile& t, const float* a, const float* columns, Index dims,
                    float* to) {
  const Index width = panel_width(), stride = query_stride(dims);
  for (Index key = t.keys.begin / width * width; key < t.keys.end; key += width) {
    for (Index row = 0; row < t.rows; row += group_rows) {
      for (Index column = 0; column < width; column += 2 * lanes()) {
        multiply<2, most_dims, Into::store>(
            std::min(group_rows, t.rows - row), a + row * stride, stride,
            columns + key * dims + column, width, dims,
            {to + row * matrix_stride + key + column, matrix_stride}, nullptr);
      }
    }
  }
}

// sums (count, dims) += A · rows of B: A is (count, depth), or (depth, count) by columns.
template <Lies lies, int columns>
void add_dims(const float* a, Index count, const float* b, Index depth, Index dim, float* sums,
              Index sums_stride) {
  const Index width = panel_width();
  for (Index row = 0; row < count; row += group_rows) {
    const float* from = lies == Lies::by_rows ? a + row * matrix_stride : a + row;
    multiply<columns, most_keys, Into::add, lies>(
        std::min(group_rows, count - row), from, matrix_stride, b, width, depth,
        {sums + row * sums_stride + dim, sums_stride}, nullptr);
  }
}
// `b_rows`: how many rows a panel of B has room for; those from `first` on are meant.
template <Lies lies>
void add_product(const float* a, Index count, const float* b, Index b_rows, Index first,
                 Index depth, Index dims, float* sums, Index sums_stride) {
  const Index width = panel_width();
  Index dim = 0;
  const auto panel = [&] { return b + (dim / width * b_rows + first) * width + dim % width; };
  for (; dim + 2 * lanes() <= dims; dim += 2 * lanes())
    add_dims<lies, 2>(a, count, panel(), depth, dim, sums, sums_stride);
  for (; dim < dims; dim += lanes())
    add_dims<lies, 1>(a, count, panel(), depth, dim, sums, sums_stride);
}

// slopes[i] = 4e / (1 + e)², e = e^(−2 |dot · scale / cap|)
void cap_slopes(const float* dots, Index count, float scale, float cap, float* slopes) {
  const Floats d;
  const FloatVector factor = hn::Set(d, -2 * log2_e * std::abs(scale / cap));
  const FloatVector one = hn::Set(d, 1.0f), four = hn::Set(d, 4.0f);
  for (Index i = 0; i < count; i += lanes()) {
    const FloatVector e = exp2(hn::Mul(factor, hn::Abs(hn::LoadU(d, dots + i))));
    const FloatVector sum = hn::Add(one, e);
    hn::StoreU(hn::Div(hn::Mul(four, e), hn::Mul(sum, sum)), d, slopes + i);
  }
}

// Dot products of a row become P, those with dout become dX. Loops go on to whole vectors; what
// they leave outside the row's keys is made zero.
void weigh_row(const GradientTile& t, Index row) {
  float* weights = t.weights + row * matrix_stride;
  float* gradients = t.gradients + row * matrix_stride;
  const float lse = t.lse[row];
  // Where lse is −inf, masks hide every key.
  const Range keys = lse == minus_infinity ? Range{t.keys.begin, t.keys.begin} : t.row_keys[row];
  if (keys.begin < keys.end) {
    const Floats d;
    const Index count = keys.end - keys.begin;
    float *w = weights + keys.begin, *g = gradients + keys.begin;
    if (t.softcap > 0) cap_slopes(w, count, t.scale, t.softcap, t.slopes);
    if (t.score_row) t.score_row(t, row, keys, w);
    const FloatVector scale = hn::Set(d, t.score_row ? 1.0f : t.scale);
    const FloatVector reference = hn::Set(d, lse), delta = hn::Set(d, t.deltas[row]);
    const FloatVector to_base_two = hn::Set(d, log2_e);
    for (Index i = 0; i < count; i += lanes()) {
      const FloatVector exponent = hn::MulSub(hn::LoadU(d, w + i), scale, reference);
      const FloatVector weight = exp2(hn::Mul(exponent, to_base_two));
      hn::StoreU(weight, d, w + i);
      hn::StoreU(hn::Mul(weight, hn::Sub(hn::LoadU(d, g + i), delta)), d, g + i);
    }
    if (t.see_row) t.see_row(t, row, keys, g);
    if (t.softcap > 0) {
      for (Index i = 0; i < count; ++i) g[i] *= t.slopes[i];
    }
  }
  for (float* matrix : {weights, gradients}) {
    std::fill(matrix + t.keys.begin, matrix + keys.begin, 0.0f);
    std::fill(matrix + keys.end, matrix + t.keys.end, 0.0f);
  }
}

void add_tile(const GradientTile& t) {
  multiply_pairs(t, t.q_rows, t.k_columns, t.qk_dim, t.weights);
  multiply_pairs(t, t.dout_rows, t.v_columns, t.v_dim, t.gradients);
  for (Index row = 0; row < t.rows; ++row) weigh_row(t, row);
  if (!t.dq) return;
  const Index first = t.keys.begin, count = t.keys.end - first;
  add_product<Lies::by_columns>(t.weights + first, count, t.dout_values, backward_tile_queries, 0,
                                t.rows, t.v_dim, t.dv + first * t.v_stride, t.v_stride);
  add_product<Lies::by_columns>(t.gradients + first, count, t.q_values, backward_tile_queries, 0,
                                t.rows, t.qk_dim, t.dk + first * t.qk_stride, t.qk_stride);
  add_product<Lies::by_rows>(t.gradients + first, t.rows, t.k_values, backward_tile_keys, first,
                             count, t.qk_dim, t.dq, t.qk_stride);
}

}  // namespace

const BackwardEngine& vector_backward_engine() {
  // Loops over keys may go a vector further than a row's last one.
  static const BackwardEngine table = {add_tile, backward_tile_queries * matrix_stride + lanes()};
  return table;
}

}  // namespace rapt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rapt {

const BackwardEngine& backward_engine() { RAPT_BEST_TARGET(vector_backward_engine()); }

}  // namespace rapt
#endif
