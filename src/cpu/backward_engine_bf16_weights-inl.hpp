// Weights of the backward engine on tiles of bf16: 32 × 32 dot products, and as many with dout,
// become P and dX a few rows at a time, beside the products that keep a tile unit busy.
//
// Both are rounded to bf16 in the forms that the unit takes without a transposition, with
// "pair" for two bf16 in 32 bits:
//   P, dX  (two key tiles, row groups, 16 pairs of rows, 16 keys), of one panel of 32 keys; there
//          are two panels: one is multiplied while the next is made
//   dX     (row groups, panels, 32 rows, 32 keys), of the whole tile
//
// Included once per target by files that include hwy/foreach_target.h.
#if defined(RAPT_BACKWARD_ENGINE_BF16_WEIGHTS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef RAPT_BACKWARD_ENGINE_BF16_WEIGHTS_INL
#undef RAPT_BACKWARD_ENGINE_BF16_WEIGHTS_INL
#else
#define RAPT_BACKWARD_ENGINE_BF16_WEIGHTS_INL
#endif

#include <algorithm>

#include "src/cpu/engine_bf16_softmax-inl.hpp"
#include "src/cpu/simd/backward-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace rapt::HWY_NAMESPACE {

struct BackwardTileShape : TileShape {
  static constexpr Index tile_queries = 256, tile_keys = 128;
  static constexpr Index groups = tile_queries / group_rows, panels = tile_keys / step;
  static constexpr Index block = group_rows * step;  // elements
};

// Where rounded P and dX lie in the scratch memory.
struct RoundedMatrices : BackwardTileShape {
  BF16* first;

  explicit RoundedMatrices(const GradientTile& t) : first(static_cast<BF16*>(t.scratch)) {}

  // Of a row group's pairs in the first key tile; the second is `key_tile` elements further.
  static constexpr Index key_tile = groups * tile_bytes / Index{sizeof(BF16)};
  BF16* weight_pairs(Index turn, Index group) const {
    return first + turn % 2 * 2 * key_tile + group * (block / 2);
  }
  BF16* gradient_pairs(Index turn, Index group) const {
    return weight_pairs(turn, group) + 4 * key_tile;
  }
  BF16* gradient_rows(Index group, Index panel) const {
    return first + 8 * key_tile + (group * panels + panel) * block;
  }
  static constexpr Index bytes = (8 * key_tile + groups * panels * block) * Index{sizeof(BF16)};
};

// Weighs blocks of 32 rows × 32 keys, in the order in which they are given. `Unit` rounds.
template <class Unit>
class BlockWeigher : BackwardTileShape {
 public:
  explicit BlockWeigher(const GradientTile& t) : t_(t), rounded_(t) {}

  // Where the next block's dot products are to be stored.
  struct Block {
    float *scores, *gradients;  // (32, 32)
  };
  Block next_block() {
    finish(given_ + 1 - room);
    return block_at(given_);
  }
  // To be called when they are. `turn`: the panel's number among those that are looked at.
  void give_block(Index group, Index panel, Index turn) {
    places_[given_ % room] = {group, panel, turn};
    ++given_;
    if (given_ == weighed_ + 1) start_block();
  }
  Index given() const { return given_; }

  // Weighs some pairs of rows of the blocks that were given, as far as there are any.
  HWY_INLINE void advance(Index row_pairs) {
    while (row_pairs > 0 && weighed_ < given_) {
      const Index end = std::min(row_ + 2 * row_pairs, group_rows);
      row_pairs -= (end - row_) / 2;
      if (plain_) {
        weigh_plain_rows(end);
      } else {
        weigh_carefully(end);
      }
      if (row_ == group_rows) finish_block();
    }
  }
  // Weighs all of the first `blocks` blocks.
  void finish(Index blocks) {
    while (weighed_ < blocks) advance(group_rows / 2);
  }

 private:
  static constexpr Index room = 3;  // blocks that may wait

  struct Place {
    Index group, panel, turn;
  };

  Block block_at(Index number) {
    float* scores = dots_ + number % room * 2 * block;
    return {scores, scores + block};
  }

  void start_block() {
    const Place& at = places_[weighed_ % room];
    row_ = 0;
    plain_ = !t_.score_row && !t_.drop_row && !t_.see_row && t_.softcap == 0 &&
             (at.group + 1) * group_rows <= t_.rows;
    for (Index row = 0; plain_ && row < group_rows; ++row) {
      const Range seen = seen_keys(t_, at.group * group_rows + row, panel_keys());
      plain_ = seen.end - seen.begin == step;
    }
  }
  HWY_NOINLINE void finish_block() {
    ++weighed_;
    if (weighed_ < given_) start_block();
  }
  Range panel_keys() const {
    const Index first = places_[weighed_ % room].panel * step;
    return {first, first + step};
  }

  // Rows up to `end`. A function of its own that calls none, so that constants stay in registers.
  HWY_NOINLINE void weigh_plain_rows(Index end) {
    const Floats d;
    const Place& at = places_[weighed_ % room];
    const Block dots = block_at(weighed_);
    const FloatVector scale = hn::Set(d, t_.scale);
    for (; row_ < end; row_ += 2) {
      const float* lse = t_.lse + at.group * group_rows + row_;
      const float* delta = t_.deltas + at.group * group_rows + row_;
      for (Index i = 0; i < step; i += 2 * lanes()) {
        const auto weight = [&](Index odd, Index key) HWY_ATTR {
          return weight_of(hn::Load(d, dots.scores + (row_ + odd) * step + key), scale,
                           hn::Set(d, lse[odd]));
        };
        const auto gradient = [&](FloatVector of_weight, Index odd, Index key) HWY_ATTR {
          const FloatVector dots_with_v = hn::Load(d, dots.gradients + (row_ + odd) * step + key);
          return hn::Mul(of_weight, hn::Sub(dots_with_v, hn::Set(d, delta[odd])));
        };
        const FloatVector even0 = weight(0, i), odd0 = weight(1, i);
        const FloatVector even1 = weight(0, i + lanes()), odd1 = weight(1, i + lanes());
        store_weights(at, i, even0, even1, odd0, odd1);
        store_gradients(at, i, gradient(even0, 0, i), gradient(even1, 0, i + lanes()),
                        gradient(odd0, 1, i), gradient(odd1, 1, i + lanes()));
      }
    }
  }

  // Rows up to `end`, whatever they see and whatever becomes of their scores.
  HWY_NOINLINE void weigh_carefully(Index end) {
    const Floats d;
    const Place& at = places_[weighed_ % room];
    const Block dots = block_at(weighed_);
    for (; row_ < end; row_ += 2) {
      weigh_row(row_);
      weigh_row(row_ + 1);
      const auto load = [&](const float* from, Index odd, Index key)
                            HWY_ATTR { return hn::Load(d, from + (row_ + odd) * step + key); };
      for (Index i = 0; i < step; i += 2 * lanes()) {
        store_weights(at, i, load(dots.scores, 0, i), load(dots.scores, 0, i + lanes()),
                      load(dots.scores, 1, i), load(dots.scores, 1, i + lanes()));
        store_gradients(at, i, load(dots.gradients, 0, i), load(dots.gradients, 0, i + lanes()),
                        load(dots.gradients, 1, i), load(dots.gradients, 1, i + lanes()));
      }
    }
  }

  // In place, in f32: 0 for keys that the row does not see, and in rows that the tile does not
  // have. Loops go on to whole vectors, past the row's own place.
  void weigh_row(Index row) {
    const Place& at = places_[weighed_ % room];
    const Block dots = block_at(weighed_);
    const Index in_tile = at.group * group_rows + row;
    const Range panel = panel_keys();
    const Range seen =
        in_tile < t_.rows ? seen_keys(t_, in_tile, panel) : Range{panel.begin, panel.begin};
    const Index begin = seen.begin - panel.begin, count = seen.end - seen.begin;
    constexpr Index width = step + static_cast<Index>(hn::MaxLanes(Floats()));
    HWY_ALIGN float weights[width] = {}, gradients[width] = {}, slopes[width];
    std::copy_n(dots.scores + row * step + begin, count, weights);
    std::copy_n(dots.gradients + row * step + begin, count, gradients);
    if (count > 0) weigh_keys(t_, in_tile, seen, weights, gradients, slopes);
    std::fill_n(dots.scores + row * step, step, 0.0f);
    std::fill_n(dots.gradients + row * step, step, 0.0f);
    std::copy_n(weights, count, dots.scores + row * step + begin);
    std::copy_n(gradients, count, dots.gradients + row * step + begin);
  }

  // Two vectors of keys, from `key` of the panel on, of two rows.
  HWY_INLINE void store_weights(const Place& at, Index key, FloatVector even0, FloatVector even1,
                                FloatVector odd0, FloatVector odd1) const {
    BF16* pairs = rounded_.weight_pairs(at.turn, at.group);
    Unit::store_pairs(even0, odd0, pairs + in_pairs(key));
    Unit::store_pairs(even1, odd1, pairs + in_pairs(key + lanes()));
  }
  HWY_INLINE void store_gradients(const Place& at, Index key, FloatVector even0, FloatVector even1,
                                  FloatVector odd0, FloatVector odd1) const {
    BF16* pairs = rounded_.gradient_pairs(at.turn, at.group);
    Unit::store_pairs(even0, odd0, pairs + in_pairs(key));
    Unit::store_pairs(even1, odd1, pairs + in_pairs(key + lanes()));
    BF16* rows = rounded_.gradient_rows(at.group, at.panel) + row_ * step + key;
    Unit::store_rounded(even0, even1, rows);
    Unit::store_rounded(odd0, odd1, rows + step);
  }
  HWY_INLINE Index in_pairs(Index key) const {
    return key / tile_rows * RoundedMatrices::key_tile + row_ * tile_rows + key % tile_rows * 2;
  }

  const GradientTile& t_;
  const RoundedMatrices rounded_;
  Index given_ = 0, weighed_ = 0;  // blocks
  Index row_ = 0;                  // the next one of this block
  bool plain_ = false;             // all rows see all keys, and scores are what was given
  Place places_[room];
  HWY_ALIGN float dots_[room * 2 * block];
};

}  // namespace rapt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
