// The matrix engine on bf16 tiles, over anything that multiplies tiles as AMX does: `Tiles` is
// AmxTiles (amx.hpp), or a model of it in the tests.
//
// Packed, in tiles of 1 KiB that are read in order, with "pair" for two bf16 in 32 bits:
//   Q  (row tiles, depth steps, 16 rows, 32)
//   K  (key tiles, pairs of qk_dim, 16 keys)
//   V  (v_dim tiles, pairs of keys, 16 dims)
//   P  (2 row tiles, steps of 32 keys, 16 rows, 32), of one row group
// Scores and sums are f32. A row group is two row tiles, a panel two key or dim tiles: four tiles
// of sums are in the registers, and every tile loaded is used twice.
//
// Softmax takes as long as both products, so it must not wait for memory: it works on 32 rows × 32
// keys as soon as they are multiplied, while the tile unit is at the next ones. The largest score
// of a row is not known by then. Weights are relative to a reference that follows it from below by
// a power of two, 2⁸ at most: where a score would exceed that, the reference is raised, and what
// the row has so far is multiplied by a power of two, exactly.
//
// Included once per target by files that include hwy/foreach_target.h.
#if defined(RAPT_ENGINE_AMX_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef RAPT_ENGINE_AMX_INL
#undef RAPT_ENGINE_AMX_INL
#else
#define RAPT_ENGINE_AMX_INL
#endif

#include <cmath>
#include <cstring>
#include <limits>

#include "src/cpu/engine.hpp"
#include "src/cpu/simd/pack-inl.hpp"
#include "src/cpu/simd/softmax-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace rapt::HWY_NAMESPACE {

template <class Tiles>
struct TileEngine {
  using Index = semantics::Index;
  using Range = semantics::Range;

  static constexpr Index tile_rows = 16, tile_bytes = 1024, step = 32, group_rows = 32;
  static constexpr Index steps_per_chunk = 32;  // of the qk_dim: partial sums stay exact

  static Index lanes() { return static_cast<Index>(hn::Lanes(Floats())); }
  static Index steps_of(Index count) { return (count + step - 1) / step; }

  static Index queries_bytes(Index rows, Index qk_dim) {
    return steps_of(rows) * 2 * steps_of(qk_dim) * tile_bytes;
  }
  static Index keys_bytes(Index tile_keys, Index qk_dim) {
    return tile_keys / tile_rows * steps_of(qk_dim) * tile_bytes;
  }
  static Index values_bytes(Index tile_keys, Index v_dim) {
    return steps_of(v_dim) * 2 * (tile_keys / step) * tile_bytes;
  }

  static Index scratch_bytes(Index, Index tile_keys) {
    return 2 * (tile_keys / step) * tile_bytes;  // the weights of one row group
  }

  static void pack_queries(DType, const void* const* rows, Index count, Index qk_dim,
                           void* packed) {
    const Index steps = steps_of(qk_dim);
    std::memset(packed, 0, static_cast<std::size_t>(queries_bytes(count, qk_dim)));
    for (Index row = 0; row < count; ++row) {
      auto* to = static_cast<std::byte*>(packed) + row / tile_rows * steps * tile_bytes +
                 row % tile_rows * 64;
      const auto* from = static_cast<const std::byte*>(rows[row]);
      for (Index i = 0; i < qk_dim; i += step, to += tile_bytes)
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

  // tmm0 … tmm3 (2, 2 tiles) = A (2 row tiles, steps) · B (2 column tiles, steps), stored into
  // sums (32, 32).
  static HWY_INLINE void multiply(const std::byte* a, Index a_stride, const std::byte* b,
                                  Index b_stride, Index steps, float* sums) {
    Tiles::template zero<0>();
    Tiles::template zero<1>();
    Tiles::template zero<2>();
    Tiles::template zero<3>();
    for (Index i = 0; i < steps; ++i, a += tile_bytes, b += tile_bytes) {
      Tiles::template load<4>(a, 64);
      Tiles::template load<6>(b, 64);
      Tiles::template multiply<0, 4, 6>();
      Tiles::template load<5>(a + a_stride, 64);
      Tiles::template multiply<2, 5, 6>();
      Tiles::template load<7>(b + b_stride, 64);
      Tiles::template multiply<1, 4, 7>();
      Tiles::template multiply<3, 5, 7>();
    }
    constexpr Index row_bytes = step * 4;
    Tiles::template store<0>(sums, row_bytes);
    Tiles::template store<1>(sums + tile_rows, row_bytes);
    Tiles::template store<2>(sums + tile_rows * step, row_bytes);
    Tiles::template store<3>(sums + tile_rows * step + tile_rows, row_bytes);
  }

  // to (32, 32) = to · factor[row] + sums (32, 32); factor null: 1.
  static HWY_INLINE void add(const float* sums, const float* factor, float* to, Index stride) {
    const Floats d;
    for (Index row = 0; row < group_rows; ++row, sums += step, to += stride) {
      const FloatVector by = hn::Set(d, factor ? factor[row] : 1.0f);
      for (Index i = 0; i < step; i += lanes())
        hn::Store(hn::MulAdd(by, hn::Load(d, to + i), hn::Load(d, sums + i)), d, to + i);
    }
  }

  // Scores (32, 32) of one row group and the 32 keys from `key` on.
  static HWY_INLINE void multiply_scores(const BlockTile& t, Index group, Index key,
                                         float* scores) {
    const Index steps = steps_of(t.qk_dim), stride = steps * tile_bytes;
    const auto* a = static_cast<const std::byte*>(t.queries) + 2 * group * stride;
    const auto* b = static_cast<const std::byte*>(t.keys) + key / tile_rows * stride;
    multiply(a, stride, b, stride, std::min(steps, steps_per_chunk), scores);
    for (Index first = steps_per_chunk; first < steps; first += steps_per_chunk) {
      HWY_ALIGN float more[group_rows * step];
      multiply(a + first * tile_bytes, stride, b + first * tile_bytes, stride,
               std::min(steps_per_chunk, steps - first), more);
      add(more, nullptr, scores, step);
    }
  }

  // out of one row group and the 32 dims from `dim` on.
  static HWY_INLINE void accumulate_out(const BlockTile& t, Index group, Index dim) {
    const Range seen = t.group_keys[group];
    const Index first = seen.begin / step, end = steps_of(seen.end);
    const Index stride = t.tile_keys / step * tile_bytes;
    HWY_ALIGN float sums[group_rows * step];
    multiply(
        static_cast<const std::byte*>(t.scratch) + first * tile_bytes, stride,
        static_cast<const std::byte*>(t.values) + dim / tile_rows * stride + first * tile_bytes,
        stride, end - first, sums);
    add(sums, t.rescale + group * group_rows, t.out + group * group_rows * t.out_stride + dim,
        t.out_stride);
  }

  // What softmax knows of the rows of a group while it goes through a tile: exponents are scaled
  // scores minus the reference, and below `headroom`.
  static constexpr float headroom = 8;
  static constexpr float no_reference = std::numeric_limits<float>::lowest();  // finite
  static constexpr float astronomic = 0x1p20f;  // a fused product minus a rounded one can be large
  struct Rows {
    HWY_ALIGN float sums[group_rows * hn::MaxLanes(Floats())];  // (rows, lanes)
    float reference[group_rows], rescale[group_rows];
  };

  // Weights of a row of this group for the 32 keys from `key` on; the next 32 are a tile further.
  static BF16* weights_of(const BlockTile& t, Index row, Index key) {
    return static_cast<BF16*>(t.scratch) + row / tile_rows * tile_rows * t.tile_keys +
           key / step * (tile_rows * step) + row % tile_rows * step;
  }

  // Raises a row's reference to its scores, by a whole number; what it had counts for less.
  static HWY_NOINLINE void raise_reference(const BlockTile& t, Index row, Range earlier,
                                           const float* scores, float scale, Rows& rows) {
    const float largest = largest_score(scores, {0, step}) * scale;
    float& reference = rows.reference[row];
    const bool anew = reference == no_reference || std::abs(largest) > astronomic;
    const float raised = anew ? std::ceil(largest) : reference + std::ceil(largest - reference);
    const float factor = reference == no_reference ? 0 : std::exp2(reference - raised);
    reference = raised;
    rows.rescale[row] *= factor;
    for (Index i = 0; i < lanes(); ++i) rows.sums[row * lanes() + i] *= factor;
    for (Index key = earlier.begin; key < earlier.end; key += step) {
      BF16* weights = weights_of(t, row, key);
      for (Index i = 0; i < step; ++i) weights[i] = from_float<BF16>(to_float(weights[i]) * factor);
    }
  }

  // Beside an astronomic reference all products are rounded alike: scores become scaled scores.
  // Returns the scale that is left to them.
  static HWY_INLINE float scaled(float* scores, float scale, float reference) {
    if (std::abs(reference) <= astronomic || reference == no_reference) return scale;
    for (Index i = 0; i < step; ++i) scores[i] *= scale;
    return 1;
  }

  // Scores (32, 32) become weights.
  static HWY_INLINE void weigh(const BlockTile& t, Index group, Index key, float* scores,
                               Rows& rows) {
    const Index first_row = group * group_rows;
    const Index count = std::min(group_rows, t.rows - first_row);
    const Index first_key = t.group_keys[group].begin / step * step;
    for (Index row = 0; row < count; ++row, scores += step) {
      const Range all = t.row_keys[first_row + row];
      const Range keys = {std::clamp<Index>(all.begin - key, 0, step),
                          std::clamp<Index>(all.end - key, 0, step)};
      if (keys.begin >= keys.end) {
        std::fill_n(weights_of(t, row, key), step, BF16{0});
        continue;
      }
      if (t.score_row)
        t.score_row(t, first_row + row, {key + keys.begin, key + keys.end}, scores + keys.begin);
      if (keys.end - keys.begin < step) widen_range(scores, keys, step);

      float scale = scaled(scores, t.score_scale, rows.reference[row]);
      if (weigh_row(t, row, key, scores, scale, rows, Excess::refused)) continue;
      raise_reference(t, row, {first_key, key}, scores, scale, rows);
      scale = scaled(scores, scale, rows.reference[row]);
      weigh_row(t, row, key, scores, scale, rows, Excess::cut);
    }
  }

  // What becomes of an exponent beyond the headroom. With the reference raised, only rounding can
  // leave one, and it is cut.
  enum class Excess { refused, cut };

  // Weights of one row; false if it has an excess that is refused.
  static HWY_INLINE bool weigh_row(const BlockTile& t, Index row, Index key, const float* scores,
                                   float scale, Rows& rows, Excess excess) {
    const Floats d;
    const FloatVector factor = hn::Set(d, scale), limit = hn::Set(d, headroom);
    const FloatVector reference = hn::Set(d, rows.reference[row]);
    BF16* to = weights_of(t, row, key);
    FloatVector sum = hn::Load(d, rows.sums + row * lanes());
    for (Index i = 0; i < step; i += 2 * lanes()) {
      FloatVector e0 = hn::MulSub(hn::Load(d, scores + i), factor, reference);
      FloatVector e1 = hn::MulSub(hn::Load(d, scores + i + lanes()), factor, reference);
      if (!hn::AllFalse(d, hn::Gt(hn::Max(e0, e1), limit))) {
        if (excess == Excess::refused) return false;
        e0 = hn::Min(limit, e0);
        e1 = hn::Min(limit, e1);
      }
      const FloatVector w0 = exp2<Exp2::half>(e0), w1 = exp2<Exp2::half>(e1);
      sum = hn::Add(sum, hn::Add(w0, w1));
      Tiles::store_rounded(w0, w1, to + i);
    }
    hn::Store(sum, d, rows.sums + row * lanes());
    return true;
  }

  static void start(const BlockTile& t, Index group, Rows& rows) {
    std::fill_n(rows.sums, group_rows * lanes(), 0.0f);
    for (Index row = 0; row < group_rows; ++row) {
      const Index at = group * group_rows + row;
      const bool seen = at < t.rows && t.reference[at] != minus_infinity;
      rows.reference[row] = seen ? t.reference[at] : no_reference;
      rows.rescale[row] = 1;
    }
  }

  static void finish(const BlockTile& t, Index group, const Rows& rows) {
    const Floats d;
    for (Index row = 0; row < group_rows; ++row) {
      const Index at = group * group_rows + row;
      t.rescale[at] = rows.rescale[row];
      if (at >= t.rows) continue;
      const float sum = hn::GetLane(hn::SumOfLanes(d, hn::Load(d, rows.sums + row * lanes())));
      t.row_sum[at] = t.row_sum[at] * rows.rescale[row] + sum;
      t.reference[at] = rows.reference[row] == no_reference ? minus_infinity : rows.reference[row];
    }
  }

  static void attend(const BlockTile& t) {
    Rows rows;
    HWY_ALIGN float scores[2][group_rows * step];
    for (Index group = 0; group < steps_of(t.rows); ++group) {
      const Range seen = t.group_keys[group];
      if (seen.begin == seen.end) continue;
      start(t, group, rows);
      const Index first = seen.begin / step, end = steps_of(seen.end);
      multiply_scores(t, group, first * step, scores[first % 2]);
      for (Index panel = first; panel < end; ++panel) {
        if (panel + 1 < end) multiply_scores(t, group, (panel + 1) * step, scores[(panel + 1) % 2]);
        weigh(t, group, panel * step, scores[panel % 2], rows);
      }
      finish(t, group, rows);
      for (Index dim = 0; dim < t.v_dim; dim += step) accumulate_out(t, group, dim);
    }
  }

  static const Engine& engine() {
    static const Engine table = {
        .group_rows = group_rows,
        .panel = step,
        .queries_bytes = queries_bytes,
        .keys_bytes = keys_bytes,
        .values_bytes = values_bytes,
        .scratch_bytes = scratch_bytes,
        .pack_queries = pack_queries,
        .pack_keys = pack_keys,
        .pack_values = pack_values,
        .enter = Tiles::enter,
        .leave = Tiles::leave,
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
