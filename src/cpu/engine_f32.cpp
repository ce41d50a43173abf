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
#include "src/cpu/simd/multiply-inl.hpp"
#include "src/cpu/simd/pack-inl.hpp"
#include "src/cpu/simd/softmax-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace rapt::HWY_NAMESPACE {
namespace {

using semantics::Index;
using semantics::Range;

Index panels_of(Index count) { return (count + panel_width() - 1) / panel_width(); }
Index score_stride(Index tile_keys) { return tile_keys + 16; }

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
    if (t.drop_row && keys.begin < keys.end) t.drop_row(t, row, keys, scores + keys.begin);
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
      .rounds_weights = false,
      .value_step = 1,
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
