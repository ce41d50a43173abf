// The engine of flash backward on vectors of f32. Operands are packed by forward's engine.
#include "src/cpu/backward_engine.hpp"

#include "src/cpu/simd/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/cpu/backward_engine_f32.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "src/cpu/simd/backward-inl.hpp"
#include "src/cpu/simd/multiply-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace rapt::HWY_NAMESPACE {
namespace {

constexpr Index tile_queries = 96, tile_keys = 128;
constexpr Index matrix_stride = tile_keys + 16;

// Of P or dX. Loops over keys may go a vector further than a row's last one.
Index matrix_floats() { return tile_queries * matrix_stride + lanes(); }

// P (rows, keys), dX (rows, keys) and a row's slopes of the cap, in the scratch memory.
struct Matrices {
  float *weights, *gradients, *slopes;

  explicit Matrices(const GradientTile& t)
      : weights(static_cast<float*>(t.scratch)),
        gradients(weights + matrix_floats()),
        slopes(gradients + matrix_floats()) {}
  static Index floats() { return 2 * matrix_floats() + matrix_stride; }
};

// to = A · columns of B, for the panels that hold t.keys.
void multiply_pairs(const GradientTile& t, const void* packed_a, const void* packed_columns,
                    Index dims, float* to) {
  const auto* a = static_cast<const float*>(packed_a);
  const auto* columns = static_cast<const float*>(packed_columns);
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
void add_product(const float* a, Index count, const void* packed_b, Index b_rows, Index first,
                 Index depth, Index dims, float* sums, Index sums_stride) {
  const auto* b = static_cast<const float*>(packed_b);
  const Index width = panel_width();
  Index dim = 0;
  const auto panel = [&] { return b + (dim / width * b_rows + first) * width + dim % width; };
  for (; dim + 2 * lanes() <= dims; dim += 2 * lanes())
    add_dims<lies, 2>(a, count, panel(), depth, dim, sums, sums_stride);
  for (; dim < dims; dim += lanes())
    add_dims<lies, 1>(a, count, panel(), depth, dim, sums, sums_stride);
}

// Dot products of a row become P, those with dout become dX, and zero outside the row's keys.
void weigh_row(const GradientTile& t, const Matrices& matrices, Index row) {
  float* weights = matrices.weights + row * matrix_stride;
  float* gradients = matrices.gradients + row * matrix_stride;
  const Range keys = seen_keys(t, row, t.keys);
  if (keys.begin < keys.end)
    weigh_keys(t, row, keys, weights + keys.begin, gradients + keys.begin, matrices.slopes);
  for (float* matrix : {weights, gradients}) {
    std::fill(matrix + t.keys.begin, matrix + keys.begin, 0.0f);
    std::fill(matrix + keys.end, matrix + t.keys.end, 0.0f);
  }
}

void add_tile(const GradientTile& t) {
  const Matrices matrices(t);
  multiply_pairs(t, t.q_rows, t.k_columns, t.qk_dim, matrices.weights);
  multiply_pairs(t, t.dout_rows, t.v_columns, t.v_dim, matrices.gradients);
  for (Index row = 0; row < t.rows; ++row) weigh_row(t, matrices, row);
  if (!t.dq) return;
  const Index first = t.keys.begin, count = t.keys.end - first;
  add_product<Lies::by_columns>(matrices.weights + first, count, t.dout_factors, tile_queries, 0,
                                t.rows, t.v_dim, t.dv + first * t.v_stride, t.v_stride);
  add_product<Lies::by_columns>(matrices.gradients + first, count, t.q_factors, tile_queries, 0,
                                t.rows, t.qk_dim, t.dk + first * t.qk_stride, t.qk_stride);
  add_product<Lies::by_rows>(matrices.gradients + first, t.rows, t.k_values, tile_keys, first,
                             count, t.qk_dim, t.dq, t.qk_stride);
}

Index factors_bytes(Index dims) { return f32_engine().values_bytes(tile_queries, dims); }
void pack_factors(DType dtype, const void* const* rows, Index count, Index dims, void* packed) {
  f32_engine().pack_values(dtype, rows, {0, count}, tile_queries, dims, packed);
}

const float* key_rows(const float* sums, Index, float*) { return sums; }

}  // namespace

const BackwardEngine& vector_backward_engine() {
  static const BackwardEngine table = {
      .operands = &f32_engine(),
      .tile_queries = tile_queries,
      .tile_keys = tile_keys,
      .chunk_tiles = 4,
      .scratch_bytes = Matrices::floats() * Index{sizeof(float)},
      .factors_bytes = factors_bytes,
      .pack_factors = pack_factors,
      .add_tile = add_tile,
      .key_rows = key_rows,
  };
  return table;
}

}  // namespace rapt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rapt {

const BackwardEngine& f32_backward_engine() { RAPT_BEST_TARGET(vector_backward_engine()); }

}  // namespace rapt
#endif
