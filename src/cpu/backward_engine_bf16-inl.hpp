// The engine of flash backward on tiles of bf16, over a unit that multiplies them: see
// engine_bf16-inl.hpp, whose forms of operands it shares.
//
// No product needs a transposition of P or dX: sums over queries are made the other way round,
//
//   dVᵀ += dOᵀ P,  dKᵀ += Qᵀ dX,  dQ += dX K
//
// with P and dX as the unit's second factor, for which two rows are put together element by
// element; for dQ, dX is the first factor, rounded row by row. What is transposed is transposed
// once: Q and dO when they are packed (`factors`), dK and dV when a chunk of keys is done.
//   factors   (panels of dims, row groups, 32 dims, 32 rows)
//   dK, dV    (panels of keys, panels of dims, 32 dims, 32 keys), f32
//
// On AMX weights take about as long as all five products of 64 dims. They are made beside the
// products, a few rows to each step:
//
//   tile unit    S, dP of panel p, group 0   dVᵀ, dKᵀ of panel p − 1, some dims   S, dP of group 1
//   … vectors      rows of P and dX of panel p, as their dot products come
//
// and dQ follows when all panels of the tile are done: its sums are then over up to 128 keys, those
// of dVᵀ and dKᵀ over up to 256 queries, so that sums are loaded and stored seldom. Every tile that
// is loaded is used twice.
//
// Included once per target by files that include hwy/foreach_target.h.
#if defined(RAPT_BACKWARD_ENGINE_BF16_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef RAPT_BACKWARD_ENGINE_BF16_INL
#undef RAPT_BACKWARD_ENGINE_BF16_INL
#else
#define RAPT_BACKWARD_ENGINE_BF16_INL
#endif

#include <algorithm>
#include <cstring>

#include "src/cpu/backward_engine_bf16_weights-inl.hpp"
#include "src/cpu/engine_bf16-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace rapt::HWY_NAMESPACE {

template <class Unit>
struct TileBackward : BackwardTileShape {
  using Operands = TileEngine<Unit>;

  // A panel of keys, the row groups that see some of them, and which half of the scratch memory
  // their P and dX are in.
  struct Panel {
    Index number = 0, turn = 0;
    Range seeing = {0, 0};
  };

  static Index factors_bytes(Index dims) { return steps_of(dims) * groups * group_step_bytes; }

  // Pairs of rows are put together as values are, and then tiles of 16 × 16 pairs transposed.
  static void pack_factors(DType, const void* const* rows, Index count, Index dims, void* packed) {
    const auto row_at = [&](Index row, Index dim) {
      return row < count ? static_cast<const std::uint16_t*>(rows[row]) + dim : nullptr;
    };
    for (Index dim = 0; dim < dims; dim += step) {
      for (Index group = 0; group < steps_of(count); ++group) {
        auto* to = static_cast<std::uint16_t*>(packed) + (dim / step * groups + group) * block;
        for (Index row = 0; row < group_rows; row += 2) {
          const Index at = group * group_rows + row;
          Operands::pack_value_pair(row_at(at, dim), row_at(at + 1, dim),
                                    std::min(step, dims - dim), to + row * tile_rows, block / 2);
        }
        transpose_pairs(to);
        transpose_pairs(to + block / 2);
      }
    }
  }
  static void transpose_pairs(void* tile) {
    HWY_ALIGN float pairs[tile_rows * tile_rows];
    std::memcpy(pairs, tile, sizeof pairs);
    for (Index row = 0; row < tile_rows; row += 4)
      transpose_rows(pairs + row * tile_rows, tile_rows, tile_rows,
                     static_cast<float*>(tile) + row);
  }
  // Four rows (4, width) become columns (width, 4), `stride` apart.
  static void transpose_rows(const float* from, Index width, Index stride, float* to) {
    const float* const four[] = {from, from + width, from + 2 * width, from + 3 * width};
    transpose_four(four, width, stride, to);
  }

  static const float* key_rows(const float* sums, Index stride, float* rows) {
    for (Index key = 0; key < tile_keys; key += step) {
      for (Index dim = 0; dim < stride; dim += step, sums += block) {
        for (Index i = 0; i < step; i += 4)
          transpose_rows(sums + i * step, step, stride, rows + key * stride + dim + i);
      }
    }
    return rows;
  }

  static Panel panel_of(const GradientTile& t, Index number, Index turn) {
    Panel panel = {number, turn, {groups, 0}};
    const Range keys = semantics::within(Range{number * step, (number + 1) * step}, t.keys);
    for (Index row = 0; row < t.rows; ++row) {
      const Range seen = semantics::within(t.row_keys[row], keys);
      if (seen.begin == seen.end) continue;
      panel.seeing = {std::min(panel.seeing.begin, row / group_rows), row / group_rows + 1};
    }
    return panel;
  }

  // Adds to dVᵀ (the first dims) or dKᵀ (the others) of a panel of keys and one of dims.
  template <class Beside>
  static HWY_INLINE void add_key_sums(const GradientTile& t, const Panel& panel, Index dims,
                                      Beside beside) {
    const RoundedMatrices rounded(t);
    const Index first = panel.seeing.begin, v_panels = steps_of(t.v_dim);
    const bool is_v = dims < v_panels;
    const Index number = is_v ? dims : dims - v_panels;
    const auto* factors = static_cast<const std::byte*>(is_v ? t.dout_factors : t.q_factors) +
                          (number * groups + first) * group_step_bytes;
    const BF16* pairs =
        is_v ? rounded.weight_pairs(panel.turn, first) : rounded.gradient_pairs(panel.turn, first);
    const Index panels_of_dims = is_v ? v_panels : steps_of(t.qk_dim);
    float* sums = (is_v ? t.dv : t.dk) + (panel.number * panels_of_dims + number) * block;
    Unit::template multiply<Into::add>(factors, reinterpret_cast<const std::byte*>(pairs),
                                       groups * tile_bytes, panel.seeing.end - first, sums, step,
                                       beside);
  }

  // Adds to dQ of a row group what it gets from `seen`, a range of panels.
  static void add_query_sums(const GradientTile& t, Index group, Range seen) {
    const RoundedMatrices rounded(t);
    const auto* gradients =
        reinterpret_cast<const std::byte*>(rounded.gradient_rows(group, seen.begin));
    const Index rows = std::min(group_rows, t.rows - group * group_rows);
    const Index stride = panels * tile_bytes;
    for (Index dims = 0; dims < steps_of(t.qk_dim); ++dims) {
      const auto* values =
          static_cast<const std::byte*>(t.k_values) + 2 * dims * stride + seen.begin * tile_bytes;
      float* sums = t.dq + group * group_rows * t.qk_stride + dims * step;
      const auto multiply = [&]<Into into>(float* to, Index to_stride) HWY_ATTR {
        Unit::template multiply<into>(gradients, values, stride, seen.end - seen.begin, to,
                                      to_stride, [] {});
      };
      if (rows == group_rows) {
        multiply.template operator()<Into::add>(sums, t.qk_stride);
      } else {  // rows after the last one are another head's
        HWY_ALIGN float more[block];
        multiply.template operator()<Into::store>(more, step);
        Operands::add(more, sums, rows, t.qk_stride);
      }
    }
  }

  // Of each row group: the panels it was multiplied with. Windows make them one range.
  static void add_queries(const GradientTile& t, const Panel* seen_panels, Index count) {
    for (Index group = 0; group < steps_of(t.rows); ++group) {
      Range seen = {panels, 0};
      for (Index i = 0; i < count; ++i) {
        const Panel& panel = seen_panels[i];
        if (group < panel.seeing.begin || group >= panel.seeing.end) continue;
        seen = {std::min(seen.begin, panel.number), panel.number + 1};
      }
      if (seen.begin < seen.end) add_query_sums(t, group, seen);
    }
  }

  static void add_tile(const GradientTile& t) {
    BlockWeigher<Unit> weigher(t);
    const Index score_steps = steps_of(t.qk_dim) + steps_of(t.v_dim);
    Panel seen_panels[panels];
    Index turn = 0, blocks_before = 0;
    for (Index number = t.keys.begin / step; number < steps_of(t.keys.end); ++number) {
      const Panel panel = panel_of(t, number, turn);
      const Index blocks = panel.seeing.end - panel.seeing.begin;
      if (blocks <= 0) continue;
      const Panel* before = turn > 0 && t.dq ? &seen_panels[turn - 1] : nullptr;
      const Index sums = before ? score_steps : 0;  // panels of dims
      const Index depth = before ? before->seeing.end - before->seeing.begin : 0;
      const Index steps = blocks * score_steps + sums * depth;
      const Index row_pairs = (blocks * (group_rows / 2) + steps - 1) / steps;  // in each step
      const auto beside = [&]() HWY_ATTR { weigher.advance(row_pairs); };
      for (Index i = 0, sum = 0; i < blocks; ++i) {
        const Index group = panel.seeing.begin + i;
        const auto [scores, gradients] = weigher.next_block();
        Operands::multiply_pairs(t.q_rows, group, t.k_columns, number, t.qk_dim, scores, beside);
        Operands::multiply_pairs(t.dout_rows, group, t.v_columns, number, t.v_dim, gradients,
                                 beside);
        weigher.give_block(group, number, turn);
        const Index due = sums * (i + 1) / blocks;
        if (sum == 0 && due > 0) weigher.finish(blocks_before);
        for (; sum < due; ++sum) add_key_sums(t, *before, sum, beside);
      }
      blocks_before = weigher.given();
      seen_panels[turn++] = panel;
    }
    weigher.finish(blocks_before);
    if (!t.dq || turn == 0) return;
    for (Index sum = 0; sum < score_steps; ++sum)
      add_key_sums(t, seen_panels[turn - 1], sum, [] {});
    add_queries(t, seen_panels, turn);
  }

  static const BackwardEngine& engine() {
    static const BackwardEngine table = {
        .operands = &Operands::engine(),
        .tile_queries = tile_queries,
        .tile_keys = tile_keys,
        .chunk_tiles = 8,
        .scratch_bytes = RoundedMatrices::bytes,
        .factors_bytes = factors_bytes,
        .pack_factors = pack_factors,
        .add_tile = add_tile,
        .key_rows = key_rows,
    };
    return table;
  }
};

}  // namespace rapt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
