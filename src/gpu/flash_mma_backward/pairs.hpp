// What becomes of the pairs of a tile: dot products q·k turn into weights P, and dout·v into dX, in
// the registers that products left them in.
#pragma once

#include "src/gpu/flash_mma_backward/block_tiles.hpp"

namespace rapt::gpu::flash_mma_backward {

// A tile of pairs: of one head, owned rows from `own_first` on and streamed ones from
// `streamed_first` on.
struct PairTile {
  Index head;
  int own_first, streamed_first;
  bool all_visible;
};

// What a lane needs of the queries among its pairs: numbers(i, j).
template <class Target, TileConfig config, bool own_queries, class Element>
struct PairGradientsOfTile {
  using Tiles = BlockTiles<Target, config, own_queries, Element>;
  using Pairs = typename Tiles::Pairs;
  static constexpr int rows = Tiles::rows, columns = Tiles::columns;

  // dots become P without what is dropped, dout_v becomes dX. A row's −Σ dS |p − j| is added to
  // slope_parts where dalibi is wanted.
  template <class Numbers>
  RAPT_DEVICE static void apply(const BackwardParameters& p, const semantics::Sequence& sequence,
                                const PairTile& tile, Numbers numbers, Pairs& dots, Pairs& dout_v,
                                CompensatedSum (&slope_parts)[rows]) {
    if (!config.score_mod || !p.call.dropout.seed)
      return of_scores(p, sequence, tile, numbers, dots, dout_v, slope_parts);
    Kept kept;
    draw(p.call, sequence, tile, kept);
    drop(kept, semantics::kept_scale<float>(p.call.dropout), dout_v);
    of_scores(p, sequence, tile, numbers, dots, dout_v, slope_parts);
    drop(kept, 1, dots);  // 1 / (1 − p) is left to the sums
  }

 private:
  using Kept = uint32_t[rows];  // of a row's pairs, a bit each
  static_assert(columns <= 32);

  RAPT_DEVICE static void draw(const semantics::Call& call, const semantics::Sequence& sequence,
                               const PairTile& tile, Kept& kept) {
    const semantics::DropoutStream stream =
        semantics::dropout_stream(call.dropout, sequence.index, tile.head);
    RAPT_UNROLL
    for (int i = 0; i < rows; ++i) {
      const int own = tile.own_first + Tiles::own_row(i);
      kept[i] = 0;
      RAPT_NO_UNROLL
      for (int column = 0; column < 2; ++column) {  // those 8 apart share a draw
        semantics::DropoutPairs pairs(stream);
        RAPT_NO_UNROLL
        for (int j = column; j < columns; j += 2) {
          const int streamed = tile.streamed_first + Tiles::streamed_row(j);
          if (own_queries ? pairs.keeps(own, streamed) : pairs.keeps(streamed, own))
            kept[i] |= 1u << j;
        }
      }
    }
  }

  // What is dropped becomes 0, the rest is multiplied.
  RAPT_DEVICE static void drop(const Kept& kept, float factor, Pairs& pairs) {
    RAPT_UNROLL
    for (int i = 0; i < rows; ++i) {
      RAPT_UNROLL
      for (int j = 0; j < columns; ++j)
        pairs.at[i][j] = (kept[i] >> j & 1) != 0 ? pairs.at[i][j] * factor : 0;
    }
  }

  template <class Numbers>
  RAPT_DEVICE static void of_scores(const BackwardParameters& p,
                                    const semantics::Sequence& sequence, const PairTile& tile,
                                    Numbers numbers, Pairs& dots, Pairs& dout_v,
                                    CompensatedSum (&slope_parts)[rows]) {
    if constexpr (config.score_mod) {
      if (has_score_mod(p.call))
        return of_any_score(p, sequence, tile, numbers, dots, dout_v, slope_parts);
    }
    of_dot_products(p.call, numbers, dots, dout_v);
    if (!tile.all_visible) hide(p.call, sequence, tile, dots, dout_v);
  }

  template <class Numbers>
  RAPT_DEVICE static void of_dot_products(const semantics::Call& call, Numbers numbers, Pairs& dots,
                                          Pairs& dout_v) {
    const float scale = call.scale * log2_e;
    RAPT_UNROLL
    for (int i = 0; i < rows; ++i) {
      RAPT_UNROLL
      for (int j = 0; j < columns; ++j) {
        const RowNumbers row = numbers(i, j);
        dots.at[i][j] = Target::exp2(dots.at[i][j] * scale - row.exponent);
        dout_v.at[i][j] = dots.at[i][j] * (dout_v.at[i][j] - row.delta);
      }
    }
  }

  RAPT_DEVICE static void hide(const semantics::Call& call, const semantics::Sequence& sequence,
                               const PairTile& tile, Pairs& weights, Pairs& of_dots) {
    RAPT_UNROLL
    for (int i = 0; i < rows; ++i) {
      const auto seen = Tiles::seen_by(call, sequence, tile.own_first + Tiles::own_row(i));
      RAPT_UNROLL
      for (int j = 0; j < columns; ++j) {
        if (seen.holds(tile.streamed_first + Tiles::streamed_row(j))) continue;
        weights.at[i][j] = 0;
        of_dots.at[i][j] = 0;
      }
    }
  }

  template <class Numbers>
  RAPT_DEVICE static void of_any_score(const BackwardParameters& p,
                                       const semantics::Sequence& sequence, const PairTile& tile,
                                       Numbers numbers, Pairs& dots, Pairs& dout_v,
                                       CompensatedSum (&slope_parts)[rows]) {
    const semantics::Call& call = p.call;
    const semantics::Scoring<float> scoring = {
        call.scale, call.softcap,
        call.alibi ? semantics::slope_of(call, sequence.index, tile.head) : 0.0f};
    RAPT_UNROLL
    for (int i = 0; i < rows; ++i) {
      const int own = tile.own_first + Tiles::own_row(i);
      const auto seen = Tiles::seen_by(call, sequence, own);
      float slope_part = 0;
      RAPT_UNROLL
      for (int j = 0; j < columns; ++j) {
        const int streamed = tile.streamed_first + Tiles::streamed_row(j);
        const int query = own_queries ? own : streamed, key = own_queries ? streamed : own;
        const Index position = query + sequence.offset;
        float score = minus_infinity;
        if (seen.holds(streamed) && !hidden_by_mask(call, sequence.index, tile.head, query, key)) {
          const float bias =
              bias_of_pair<Target, Element>(call, sequence.index, tile.head, query, key);
          score = semantics::score(scoring, dots.at[i][j], bias, position, key);
        }
        const RowNumbers row = numbers(i, j);
        const PairGradients pair = gradients_of_score<Target>(call, score, dots.at[i][j],
                                                              dout_v.at[i][j], row.lse, row.delta);
        dots.at[i][j] = pair.weight;
        dout_v.at[i][j] = pair.of_dot;
        slope_part -= pair.of_score * distance_of(position, key);
      }
      if (own_queries && p.gradients.dalibi) slope_parts[i].add(slope_part);
    }
  }
};

}  // namespace rapt::gpu::flash_mma_backward
