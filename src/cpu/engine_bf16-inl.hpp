// The matrix engine on tiles of bf16, over a unit that multiplies them: `Unit` is AMX's
// (amx_products-inl.hpp), AVX-512's dot products (dot_products-inl.hpp), or a model of either in
// the tests. It has
//
//   enter(), leave()     around all the work of a thread
//   multiply<Into>(…)    32 × 32 sums
//   store_rounded(), add_rounded(), store_pairs()    from f32 to bf16, ties to even
//
// Packed, in tiles of 1 KiB that are read in order, with "pair" for two bf16 in 32 bits:
//   Q  (row groups, depth steps, 32 rows, 32)
//   K  (key tiles, pairs of qk_dim, 16 keys)
//   V  (v_dim tiles, pairs of keys, 16 dims)
//   P  (panels of keys, 32 rows, 32), of one row group; there are two
// Scores and sums are f32. A row group is two row tiles, a panel two key or dim tiles.
//
// On AMX softmax takes as long as both products. Beside them it runs only where it stands beside
// them in the code: the processor looks some 500 instructions ahead, half of what 32 × 32 scores
// need. So softmax (engine_bf16_softmax-inl.hpp) is dealt out among the steps of the products, a
// few rows to each; a unit that has nothing to wait for leaves it until it is due:
//
//   tile unit    S(g, 0)   S(g, 1)   S(g, 2) …   P V(g − 1, dims)   S(g, 3)   S(g, 4) …
//   vectors                rows of S(g, 0), S(g, 1), S(g, 2), … become weights
//
// Included once per target by files that include hwy/foreach_target.h.
#if defined(RAPT_ENGINE_BF16_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef RAPT_ENGINE_BF16_INL
#undef RAPT_ENGINE_BF16_INL
#else
#define RAPT_ENGINE_BF16_INL
#endif

#include <cstring>

#include "src/cpu/engine.hpp"
#include "src/cpu/engine_bf16_softmax-inl.hpp"
#include "src/cpu/simd/pack-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace rapt::HWY_NAMESPACE {

template <class Unit>
struct TileEngine : TileShape {
  static constexpr Index steps_per_chunk = 32;  // of the qk_dim: partial sums stay exact

  static Index queries_bytes(Index rows, Index qk_dim) {
    return steps_of(rows) * steps_of(qk_dim) * group_step_bytes;
  }
  static Index keys_bytes(Index tile_keys, Index qk_dim) {
    return tile_keys / tile_rows * steps_of(qk_dim) * tile_bytes;
  }
  static Index values_bytes(Index tile_keys, Index v_dim) {
    return steps_of(v_dim) * 2 * (tile_keys / step) * tile_bytes;
  }

  static Index scratch_bytes(Index, Index tile_keys) {
    return 2 * (tile_keys / step) * group_step_bytes;  // the weights of two row groups
  }

  static void pack_queries(DType, const void* const* rows, Index count, Index qk_dim,
                           void* packed) {
    const Index steps = steps_of(qk_dim);
    std::memset(packed, 0, static_cast<std::size_t>(queries_bytes(count, qk_dim)));
    for (Index row = 0; row < count; ++row) {
      auto* to = static_cast<std::byte*>(packed) + row / group_rows * steps * group_step_bytes +
                 row % group_rows * 64;
      const auto* from = static_cast<const std::byte*>(rows[row]);
      for (Index i = 0; i < qk_dim; i += step, to += group_step_bytes)
        std::memcpy(to, from + 2 * i, static_cast<std::size_t>(2 * std::min(step, qk_dim - i)));
    }
  }

  // Pairs of a key's elements move as one f32.
  static void pack_keys(DType, const void* const* rows, Range keys, Index qk_dim, void* packed) {
    const Index pairs = qk_dim / 2, padded = steps_of(qk_dim) * (step / 2);
    for (Index first = keys.begin / step * step; first < keys.end; first += tile_rows) {
      float* panel = static_cast<float*>(packed) + first * padded;
      transpose_panel<float>(rows, keys, first, pairs, tile_rows, panel);
      std::fill(panel + pairs * tile_rows, panel + padded * tile_rows, 0.0f);
      if (qk_dim % 2 == 0) continue;
      for (Index key = std::max(first, keys.begin); key < std::min(first + tile_rows, keys.end);
           ++key) {
        std::memcpy(panel + pairs * tile_rows + key - first,
                    static_cast<const BF16*>(rows[key]) + qk_dim - 1, sizeof(BF16));
      }
    }
  }

  // Rows 2i and 2i + 1, element beside element. What lies beside `keys` in a step becomes zero: it
  // is multiplied by weights of 0.
  static void pack_values(DType, const void* const* rows, Range keys, Index tile_keys, Index v_dim,
                          void* packed) {
    const Index end = steps_of(keys.end) * step;
    for (Index key = keys.begin / step * step; key < end; key += 2) {
      for (Index next = std::max(key + 4, keys.begin); next < std::min(key + 6, keys.end); ++next)
        fetch_row(rows[next], v_dim * Index{sizeof(BF16)});
      const auto row = [&](Index one) {
        return one >= keys.begin && one < keys.end ? static_cast<const std::uint16_t*>(rows[one])
                                                   : nullptr;
      };
      pack_value_pair(row(key), row(key + 1), v_dim,
                      static_cast<std::uint16_t*>(packed) + key * tile_rows, tile_keys * tile_rows);
    }
  }

  static HWY_INLINE void pack_value_pair(const std::uint16_t* even, const std::uint16_t* odd,
                                         Index v_dim, std::uint16_t* packed, Index tile_stride) {
    Index dim = 0;
#if HWY_TARGET != HWY_SCALAR
    const hn::FixedTag<std::uint16_t, 8> d;
    for (; dim + tile_rows <= v_dim; dim += tile_rows, packed += tile_stride) {
      for (Index half = 0; half < tile_rows; half += 8) {
        const auto a = even ? hn::LoadU(d, even + dim + half) : hn::Zero(d);
        const auto b = odd ? hn::LoadU(d, odd + dim + half) : hn::Zero(d);
        hn::StoreU(hn::InterleaveLower(d, a, b), d, packed + 2 * half);
        hn::StoreU(hn::InterleaveUpper(d, a, b), d, packed + 2 * half + 8);
      }
    }
#endif
    for (; dim < steps_of(v_dim) * step; dim += tile_rows, packed += tile_stride) {
      for (Index i = 0; i < tile_rows; ++i) {
        packed[2 * i] = even && dim + i < v_dim ? even[dim + i] : std::uint16_t{0};
        packed[2 * i + 1] = odd && dim + i < v_dim ? odd[dim + i] : std::uint16_t{0};
      }
    }
  }

  // Scores (32, 32) of one row group and the keys of one panel.
  template <class Beside>
  static HWY_INLINE void multiply_scores(const SeeingGroup& seeing, Index panel, float* scores,
                                         Beside beside) {
    const BlockTile& t = *seeing.tile;
    multiply_pairs(t.queries, seeing.group, t.keys, panel, t.qk_dim, scores, beside);
  }
  // The same of packed queries and keys of any dims.
  template <class Beside>
  static HWY_INLINE void multiply_pairs(const void* queries, Index group, const void* keys,
                                        Index panel, Index dims, float* scores, Beside beside) {
    const Index steps = steps_of(dims), stride = steps * tile_bytes;
    const auto* a = static_cast<const std::byte*>(queries) + group * steps * group_step_bytes;
    const auto* b = static_cast<const std::byte*>(keys) + 2 * panel * stride;
    Unit::template multiply<Into::store>(a, b, stride, std::min(steps, steps_per_chunk), scores,
                                         step, beside);
    for (Index first = steps_per_chunk; first < steps; first += steps_per_chunk) {
      HWY_ALIGN float more[group_rows * step];
      Unit::template multiply<Into::store>(a + first * group_step_bytes, b + first * tile_bytes,
                                           stride, std::min(steps_per_chunk, steps - first), more,
                                           step, beside);
      add(more, scores);
    }
  }

  // to (rows, 32) += more (rows, 32)
  static HWY_INLINE void add(const float* more, float* to, Index rows = group_rows,
                             Index stride = step) {
    const Floats d;
    for (Index row = 0; row < rows; ++row, more += step, to += stride) {
      for (Index i = 0; i < step; i += lanes())
        hn::Store(hn::Add(hn::Load(d, to + i), hn::Load(d, more + i)), d, to + i);
    }
  }

  // out of a row group as its new references want it. They are rarely raised.
  static void rescale_out(const SeeingGroup& seeing) {
    const Floats d;
    const BlockTile& t = *seeing.tile;
    for (Index row = seeing.first_row(); row < seeing.first_row() + seeing.rows(); ++row) {
      if (t.rescale[row] == 1) continue;
      float* out = t.out + row * t.out_stride;
      for (Index dim = 0; dim < t.v_dim; dim += lanes())
        hn::Store(hn::Mul(hn::Load(d, out + dim), hn::Set(d, t.rescale[row])), d, out + dim);
    }
  }

  // Adds to out of one row group and one panel of dims, with the group's weights.
  template <class Beside>
  static HWY_INLINE void accumulate_out(const SeeingGroup& seeing, Index panel, Beside beside) {
    const BlockTile& t = *seeing.tile;
    const Index stride = t.tile_keys / step * tile_bytes;
    const auto* values = static_cast<const std::byte*>(t.values) + 2 * panel * stride;
    float* out = t.out + seeing.first_row() * t.out_stride + panel * step;
    Unit::template multiply<Into::add>(
        reinterpret_cast<const std::byte*>(seeing.weights(seeing.first)),
        values + seeing.first * tile_bytes, stride, seeing.panels(), out, t.out_stride, beside);
  }

  // The scores of a group are multiplied, and between them out of the group before; beside both,
  // scores become weights as they come.
  static void attend(const BlockTile& t) {
    TileSoftmax<Unit> softmax(t);
    const Index dim_panels = steps_of(t.v_dim);
    SeeingGroup seeing(t), before = seeing;
    Index blocks_before = 0;  // 0: there is no group before
    const auto finish_before = [&]() HWY_ATTR {
      softmax.finish(blocks_before);
      rescale_out(before);
    };
    for (; !seeing.at_end(); before = seeing, seeing.go_on()) {
      const Index outs = blocks_before > 0 ? dim_panels : 0;
      const Index steps = seeing.panels() * steps_of(t.qk_dim) + outs * before.panels();
      const Index rows = (seeing.panels() * group_rows + steps - 1) / steps;  // to weigh in each
      const auto beside = [&]() HWY_ATTR { softmax.advance(rows); };
      for (Index panel = 0, out = 0; panel < seeing.panels(); ++panel) {
        multiply_scores(seeing, seeing.first + panel, softmax.next_block(), beside);
        softmax.give_block();
        const Index due = outs * (panel + 1) / seeing.panels();
        if (out == 0 && due > 0) finish_before();
        for (; out < due; ++out) accumulate_out(before, out, beside);
      }
      blocks_before = softmax.given();
    }
    if (blocks_before == 0) return;
    finish_before();
    for (Index out = 0; out < dim_panels; ++out) accumulate_out(before, out, [] {});
  }

  static const Engine& engine() {
    static const Engine table = {
        .group_rows = group_rows,
        .panel = step,
        .rounds_weights = true,
        .value_step = step,
        .queries_bytes = queries_bytes,
        .keys_bytes = keys_bytes,
        .values_bytes = values_bytes,
        .scratch_bytes = scratch_bytes,
        .pack_queries = pack_queries,
        .pack_keys = pack_keys,
        .pack_values = pack_values,
        .enter = Unit::enter,
        .leave = Unit::leave,
        .attend = attend,
        .set_scores = nullptr,
        .add_scores = nullptr,
        .weigh = nullptr,
        .set_out = nullptr,
        .add_out = nullptr,
    };
    return table;
  }
};

}  // namespace rapt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
