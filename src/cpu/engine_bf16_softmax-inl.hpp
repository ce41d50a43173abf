// Softmax of the matrix engine on tiles of bf16: scores become weights a few rows at a time, beside
// the products that keep a tile unit busy.
//
// The largest score of a row is not known when its first scores come. Weights are relative to a
// reference that follows it from below by a power of two, 2⁸ at most: where a score would exceed
// that, the reference is raised, and what the row has so far is multiplied by a power of two,
// exactly. It is a whole number, so that what rounding takes from weights does not depend on which
// scores came first.
//
// Included once per target by files that include hwy/foreach_target.h.
#if defined(RAPT_ENGINE_BF16_SOFTMAX_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef RAPT_ENGINE_BF16_SOFTMAX_INL
#undef RAPT_ENGINE_BF16_SOFTMAX_INL
#else
#define RAPT_ENGINE_BF16_SOFTMAX_INL
#endif

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/cpu/engine.hpp"
#include "src/cpu/simd/softmax-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace rapt::HWY_NAMESPACE {

struct TileShape {
  using Index = semantics::Index;
  using Range = semantics::Range;

  static constexpr Index tile_rows = 16, tile_bytes = 1024, step = 32, group_rows = 32;
  static constexpr Index group_step_bytes = 2 * tile_bytes;

  enum class Into { store, add };  // what a product does to sums

  static Index lanes() { return static_cast<Index>(hn::Lanes(Floats())); }
  static Index steps_of(Index count) { return (count + step - 1) / step; }
};

// A row group that sees some keys of the tile, and the panels it sees them in. Weights of two
// groups in a row lie apart: those of one are multiplied while those of the next are made.
struct SeeingGroup : TileShape {
  const BlockTile* tile;
  Index group = -1, turn = -1;  // group: past the last one at the end
  Index first = 0, end = 0;     // panels

  explicit SeeingGroup(const BlockTile& t) : tile(&t) { go_on(); }

  void go_on() {
    ++turn;
    for (++group; !at_end(); ++group) {
      const Range keys = tile->group_keys[group];
      first = keys.begin / step;
      end = steps_of(keys.end);
      if (keys.begin < keys.end) return;
    }
  }
  bool at_end() const { return group * group_rows >= tile->rows; }
  Index panels() const { return end - first; }
  Index first_row() const { return group * group_rows; }
  Index rows() const { return std::min(group_rows, tile->rows - first_row()); }

  // (32 rows, 32 keys) of one panel.
  BF16* weights(Index panel) const {
    return static_cast<BF16*>(tile->scratch) +
           (turn % 2 * tile->tile_keys + panel * step) * group_rows;
  }
};

// Weighs all blocks of scores, 32 rows × 32 keys, of a tile: in the order of its groups, and in a
// group in the order of keys. `Unit` rounds weights to bf16.
template <class Unit>
class TileSoftmax : TileShape {
 public:
  // Blocks that may wait: the products for out, which take many steps, come between those that
  // make scores.
  static constexpr Index room = 4;

  explicit TileSoftmax(const BlockTile& t) : t_(t), at_(t) { start_group(); }

  // Where the next block is to be stored; and to be called when it is.
  float* next_block() {
    finish(given_ + 1 - room);
    return block(given_);
  }
  void give_block() { ++given_; }
  Index given() const { return given_; }

  // Weighs some rows of the blocks that were given, as far as there are any.
  HWY_INLINE void advance(Index rows) {
    while (rows > 0 && weighed_ < given_) {
      const Index end = std::min(row_ + rows, rows_);
      rows -= end - row_;
      if (plain_) weigh_plain_rows(end);
      if (row_ < end) weigh_carefully(end);
      if (row_ == rows_) finish_block();
    }
  }

  // Weighs all of the first `blocks` blocks. After a group's last one its row sums, references and
  // rescales are those after the tile.
  void finish(Index blocks) {
    while (weighed_ < blocks) advance(group_rows);
  }

 private:
  static constexpr float headroom = 8;
  static constexpr float no_reference = std::numeric_limits<float>::lowest();  // finite

  float* block(Index number) { return scores_ + number % room * group_rows * step; }

  // At the first row of the block of `panel_`.
  void start_block() {
    const Range keys = block_keys();
    row_ = 0;
    weights_ = at_.weights(panel_);
    plain_ = !t_.score_row && !t_.drop_row && seen_by_all_.begin <= keys.begin &&
             keys.end <= seen_by_all_.end;
  }
  HWY_NOINLINE void finish_block() {
    ++weighed_;
    if (++panel_ < at_.end) return start_block();
    finish_group();
    at_.go_on();
    start_group();
  }
  Range block_keys() const { return {panel_ * step, (panel_ + 1) * step}; }

  // Rows of a group that the tile does not have are carried along; nobody reads them.
  void start_group() {
    if (at_.at_end()) return;
    const Floats d;
    for (Index i = 0; i < group_rows * lanes(); i += lanes()) {
      hn::Store(hn::Zero(d), d, sums_ + i);
      hn::Store(hn::Zero(d), d, rounded_sums_ + i);
    }
    std::fill_n(rescale_, group_rows, 1.0f);
    for (Index row = 0; row < group_rows; row += lanes()) {
      const FloatVector known = hn::Load(d, t_.reference + at_.first_row() + row);
      const auto none = hn::Eq(known, hn::Set(d, minus_infinity));
      hn::Store(hn::IfThenElse(none, hn::Set(d, no_reference), known), d, reference_ + row);
    }
    for (Index row = 0; row < group_rows; ++row) is_astronomic_[row] = beyond(reference_[row]);
    seen_by_all_ = t_.row_keys[at_.first_row()];
    for (Index row = 1; row < at_.rows(); ++row) {
      const Range keys = t_.row_keys[at_.first_row() + row];
      seen_by_all_.begin = std::max(seen_by_all_.begin, keys.begin);
      seen_by_all_.end = std::min(seen_by_all_.end, keys.end);
    }
    rows_ = at_.rows();
    panel_ = at_.first;
    start_block();
  }

  void finish_group() {
    const Floats d;
    HWY_ALIGN float totals[group_rows], rounded_totals[group_rows];
    for (Index row = 0; row < group_rows; ++row) {
      totals[row] = sum_of(sums_ + row * lanes());
      rounded_totals[row] = sum_of(rounded_sums_ + row * lanes());
    }
    for (Index row = 0; row < group_rows; row += lanes()) {
      const Index at = at_.first_row() + row;
      const FloatVector rescale = hn::Load(d, rescale_ + row);
      const FloatVector reference = hn::Load(d, reference_ + row);
      const auto none = hn::Eq(reference, hn::Set(d, no_reference));
      hn::Store(rescale, d, t_.rescale + at);
      hn::Store(hn::MulAdd(hn::Load(d, t_.row_sum + at), rescale, hn::Load(d, totals + row)), d,
                t_.row_sum + at);
      hn::Store(
          hn::MulAdd(hn::Load(d, t_.divisor + at), rescale, hn::Load(d, rounded_totals + row)), d,
          t_.divisor + at);
      hn::Store(hn::IfThenElse(none, hn::Set(d, minus_infinity), reference), d, t_.reference + at);
    }
  }

  static float sum_of(const float* sums) {
    return hn::GetLane(hn::SumOfLanes(Floats(), hn::Load(Floats(), sums)));
  }

  static bool beyond(float reference) {
    return std::abs(reference) > astronomic && reference != no_reference;
  }

  // Rows up to `end`, or to one that needs care. A function of its own that calls none, so that
  // constants stay in registers.
  HWY_NOINLINE void weigh_plain_rows(Index end) {
    const float* scores = block(weighed_) + row_ * step;
    const float scale = t_.score_scale;
    BF16* weights = weights_ + row_ * step;
    Index row = row_;
    for (; row < end && !is_astronomic_[row]; ++row, scores += step, weights += step) {
      if (!store_weights<Excess::refused>(scores, {scale, reference_[row]}, sums_ + row * lanes(),
                                          rounded_sums_ + row * lanes(), weights))
        break;
    }
    row_ = row;
  }

  // Rows up to `end`, whatever they see and whatever their scores.
  HWY_NOINLINE void weigh_carefully(Index end) {
    for (; row_ < end; ++row_) {
      float* scores = block(weighed_) + row_ * step;
      if (!plain_ && !finish_scores(scores)) continue;
      Exponents exponents = exponents_of(scores, t_.score_scale);
      if (!store_weights<Excess::refused>(scores, exponents)) {
        raise_reference(scores, exponents.scale);
        exponents = exponents_of(scores, exponents.scale);
        store_weights<Excess::cut>(scores, exponents);
      }
      if (t_.drop_row) drop_weights();
    }
  }

  // Of the row and block, after they were summed.
  void drop_weights() const {
    float kept[step];
    std::fill_n(kept, step, 1.0f);
    t_.drop_row(t_, at_.first_row() + row_, block_keys(), kept);
    BF16* weights = weights_ + row_ * step;
    for (Index i = 0; i < step; ++i) {
      if (kept[i] == 0) weights[i] = BF16{0};
    }
  }

  // Dot products of the row become scores, −inf where it does not see the key. If it sees none of
  // the block's keys, its weights are 0, and there is nothing left to do: false.
  bool finish_scores(float* scores) const {
    const Index row = at_.first_row() + row_;
    const Range keys = block_keys();
    const Range seen = {std::max(t_.row_keys[row].begin, keys.begin),
                        std::min(t_.row_keys[row].end, keys.end)};
    if (seen.begin >= seen.end) {
      std::fill_n(weights_ + row_ * step, step, BF16{0});
      return false;
    }
    const Range inside = {seen.begin - keys.begin, seen.end - keys.begin};
    if (t_.score_row) t_.score_row(t_, row, seen, scores + inside.begin);
    widen_range(scores, inside, step);
    return true;
  }

  Exponents exponents_of(float* scores, float scale) const {
    const float reference = reference_[row_];
    if (!is_astronomic_[row_]) return {scale, reference};
    return astronomic_exponents(scores, {0, step}, scale, reference);
  }

  // Raises the row's reference to its scores, by a whole number; what it had counts for less.
  void raise_reference(const float* scores, float scale) {
    const float largest = largest_score(scores, {0, step}) * scale;
    float& reference = reference_[row_];
    const bool anew = reference == no_reference || std::abs(largest) > astronomic;
    const float raised = anew ? std::ceil(largest) : reference + std::ceil(largest - reference);
    const float factor = reference == no_reference ? 0 : std::exp2(reference - raised);
    reference = raised;
    is_astronomic_[row_] = beyond(raised);
    rescale_[row_] *= factor;
    for (Index i = row_ * lanes(); i < (row_ + 1) * lanes(); ++i) {
      sums_[i] *= factor;
      rounded_sums_[i] *= factor;
    }
    for (Index panel = at_.first; panel < panel_; ++panel) {
      BF16* weights = at_.weights(panel) + row_ * step;
      for (Index i = 0; i < step; ++i) weights[i] = from_float<BF16>(to_float(weights[i]) * factor);
    }
  }

  // What becomes of an exponent beyond the headroom. With the reference raised, only rounding can
  // leave one, and it is cut.
  enum class Excess { refused, cut };

  // Weights (32) of one row, added to its sums (lanes), as they are and rounded. False if there is
  // an excess that is refused; then the sums are as they were.
  template <Excess excess>
  static HWY_INLINE bool store_weights(const float* HWY_RESTRICT scores, Exponents exponents,
                                       float* HWY_RESTRICT sums, float* HWY_RESTRICT rounded_sums,
                                       BF16* HWY_RESTRICT weights) {
    const Floats d;
    const FloatVector factor = hn::Set(d, exponents.scale), limit = hn::Set(d, headroom);
    const FloatVector origin = hn::Set(d, exponents.origin);
    FloatVector sum = hn::Load(d, sums), rounded_sum = hn::Load(d, rounded_sums);
    for (Index i = 0; i < step; i += 2 * lanes()) {
      FloatVector e0 = hn::MulSub(hn::Load(d, scores + i), factor, origin);
      FloatVector e1 = hn::MulSub(hn::Load(d, scores + i + lanes()), factor, origin);
      if constexpr (excess == Excess::cut) {
        e0 = hn::IfThenElse(hn::Gt(e0, limit), limit, e0);  // NaN stays
        e1 = hn::IfThenElse(hn::Gt(e1, limit), limit, e1);
      } else if (!hn::AllFalse(d, hn::Gt(hn::Max(e0, e1), limit))) {
        return false;
      }
      const FloatVector w0 = exp2(e0), w1 = exp2(e1);
      sum = hn::Add(sum, hn::Add(w0, w1));
      Unit::add_rounded(w0, w1, weights + i, rounded_sum);
    }
    hn::Store(sum, d, sums);
    hn::Store(rounded_sum, d, rounded_sums);
    return true;
  }
  template <Excess excess>
  bool store_weights(const float* scores, Exponents exponents) {
    return store_weights<excess>(scores, exponents, sums_ + row_ * lanes(),
                                 rounded_sums_ + row_ * lanes(), weights_ + row_ * step);
  }

  const BlockTile& t_;
  Index given_ = 0, weighed_ = 0;  // blocks
  // Where the next row lies: its block, and its number in it.
  SeeingGroup at_;
  Index panel_ = 0, row_ = 0;
  // Of this block: rows that there are, where weights go, and whether scores are what was given.
  Index rows_ = 0;
  BF16* weights_ = nullptr;
  bool plain_ = false;
  HWY_ALIGN float scores_[room * group_rows * step];
  // Of this group. Exponents are scaled scores minus the reference, and below `headroom`.
  HWY_ALIGN float sums_[group_rows * hn::MaxLanes(Floats())];  // (rows, lanes)
  HWY_ALIGN float
      rounded_sums_[group_rows * hn::MaxLanes(Floats())];  // the same of rounded weights
  HWY_ALIGN float reference_[group_rows];
  HWY_ALIGN float rescale_[group_rows];
  bool is_astronomic_[group_rows];
  Range seen_by_all_;
};

}  // namespace rapt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
