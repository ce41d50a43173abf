// The rows of a block that goes through keys a tile at a time: which ones they are, which keys they
// see, what becomes of their scores, and how their results leave.
#pragma once

#include "src/gpu/flash_mma/fragments.hpp"
#include "src/gpu/flash_mma/parameters.hpp"
#include "src/gpu/lane_groups.hpp"
#include "src/gpu/long_sums.hpp"

namespace rapt::gpu::flash_mma {

// `warps_together`: warps that decide as one whether they see a tile of keys, since their products
// are one.
template <class Target, TileConfig config, class Element, int warps_together = 1>
struct BlockRows {
  using Parameters = flash_mma::Parameters;
  using Scores = RowsOf<config, config.warp_keys()>;
  using Out = RowsOf<config, config.dim>;
  static constexpr int threads = config.warps() * 32, blocks = config.blocks;
  static constexpr int rows = Scores::rows, warp_rows = config.row_tiles * 16;
  static constexpr int block_rows = config.rows(), warp_keys = config.warp_keys();
  // In the end, over the tiles: what key warps have of each row.
  static constexpr int lanes = config.dim / split_kv_elements;
  using Merge = LaneGroups<Target, lanes, config.key_warps, block_rows, 8>;
  // Tiles between two times that the sums of weights are promoted, and the result. A tile's
  // weights are summed apart, and so is its part of a result of f32: they are one addition.
  static constexpr int sums_span = span_of_sums<float> / 2;
  static constexpr int span = sizeof(Element) == 4 ? sums_span : span_of_sums<Element> / warp_keys;
  static_assert((config.keys & (config.keys - 1)) == 0 && (span & (span - 1)) == 0);

  // attend(p, block) leaves results of the block's rows in shared memory.
  template <class Attend>
  RAPT_DEVICE static void run(const Parameters& p, Attend attend) {
    const Block block = block_at(p, Target::block_x());
    if (block.tile.rows <= 0 || !block.tile.has_chunk(block.chunk)) return;
    attend(p, block);
    barrier();
    // Looked up again, so that it takes no registers before.
    finish(p, block_at(p, Target::unknown(Target::block_x())));
  }

  // Of the warps that have rows; others may help them.
  RAPT_DEVICE static void barrier() { Target::barrier_of_first(threads); }

  struct Block {
    RowTile tile;
    int kv_head, chunk;
  };
  // All kv heads of a sequence start together, and of their rows the last ones first: under a
  // causal mask they take longest.
  RAPT_DEVICE static Block block_at(const Parameters& p, int index) {
    const int tiles = p.kv_heads.quotient(index), chunks = p.tiles.quotient(tiles);
    const int tile = p.tiles.value - 1 - p.tiles.remainder(tiles);
    return {row_tile(p, p.chunks.quotient(chunks), tile), p.kv_heads.remainder(index),
            p.chunks.remainder(chunks)};
  }

  // Null where there is none.
  RAPT_DEVICE static const Element* query_row(const Parameters& p, const Block& block, int row) {
    if (row >= block.tile.rows) return nullptr;
    const SplitKvRow of = row_at(p, block.kv_head, block.tile.first_row + row);
    const semantics::Place place = semantics::query_place(p.call, block.tile.sequence, of.query);
    return static_cast<const Element*>(p.call.q) +
           semantics::row_offset(p.call.q_stride, place, of.head);
  }

  // Rows go out from where attend() left them.
  RAPT_DEVICE static void finish(const Parameters& p, const Block& block) {
    const RowTile& tile = block.tile;
    for (int i = Target::thread(); i < tile.rows * lanes; i += threads) {
      float out[split_kv_elements];
      const RowState state = Merge::merged(i / lanes, i % lanes, out);
      const SplitKvRow row = row_at(p, block.kv_head, tile.first_row + i / lanes);
      const int at = i % lanes * split_kv_elements;
      if (tile.has_one_chunk())
        finish_row<Target, Element>(p, tile.sequence, row, at, state, out);
      else
        store_partial<Target>(p, first_partial(p, tile.sequence, row) + block.chunk, at, state,
                              out);
    }
  }

  // Lengths are limited, so that places of keys fit into 32 bits.
  struct Keys {
    int begin, end;
  };
  RAPT_DEVICE static Keys keys_in(semantics::Range range) {
    return {static_cast<int>(range.begin), static_cast<int>(range.end)};
  }

  // What a warp needs to know in its loop: the sequence, its rows, those of a kv head from `first`
  // on, and the block's keys.
  struct WarpTile {
    int sequence, offset, kv_len, kv_head;
    int first, end;  // end: behind the last row of the block
    KeyNumbers numbers;
    Keys keys;  // by their numbers, as all that follows
    // Those that at least one row of the warps together may see, and some that all see.
    Keys some, all;
  };
  // Tiles without a score mod know that there is no gap among the keys.
  RAPT_DEVICE static int key_of(const WarpTile& warp_tile, int number) {
    return config.score_mod ? warp_tile.numbers.key_of(number) : number;
  }
  RAPT_DEVICE static bool adjacent(const WarpTile& warp_tile, int first, int end) {
    return !config.score_mod || warp_tile.numbers.adjacent(first, end);
  }
  RAPT_DEVICE static WarpTile warp_tile_of(const Parameters& p, const Block& block) {
    const RowTile& tile = block.tile;
    const int skipped = block.chunk * tile.chunk_keys, left = tile.keys - skipped;
    const int begin = tile.first_key + skipped;
    WarpTile warp_tile = {
        .sequence = static_cast<int>(tile.sequence.index),
        .offset = static_cast<int>(tile.sequence.offset),
        .kv_len = static_cast<int>(tile.sequence.kv_len),
        .kv_head = block.kv_head,
        .first = tile.first_row + row_warp() * warp_rows,
        .end = tile.first_row + tile.rows,
        .numbers = tile.numbers,
        .keys = {begin, begin + (left < tile.chunk_keys ? left : tile.chunk_keys)},
        .some = {0, 0},
        .all = {0, 0},
    };
    constexpr int rows_together = warps_together * warp_rows;
    const int first = tile.first_row + row_warp() / warps_together * rows_together;
    if (first >= warp_tile.end) return warp_tile;
    const int last =
        (first + rows_together < warp_tile.end ? first + rows_together : warp_tile.end) - 1;
    const int first_position = p.group.quotient(first) + warp_tile.offset;
    const int last_position = p.group.quotient(last) + warp_tile.offset;
    const int end_key = key_of(warp_tile, warp_tile.keys.end - 1) + 1;
    warp_tile.some = numbers_in(
        warp_tile, semantics::keys_of_some(p.call.window, first_position, last_position, end_key));
    warp_tile.all = numbers_in(
        warp_tile, semantics::keys_of_all(p.call.window, first_position, last_position, end_key));
    if (config.score_mod && warp_tile.numbers.leading > 0) warp_tile.some.begin = 0;
    return warp_tile;
  }
  // Of keys of the window: those before the gap are left out.
  RAPT_DEVICE static Keys numbers_in(const WarpTile& warp_tile, semantics::Range keys) {
    if constexpr (!config.score_mod) return keys_in(keys);
    const KeyNumbers& numbers = warp_tile.numbers;
    const auto number = [&](Index key) {
      return numbers.number_of(semantics::larger(key, numbers.leading + numbers.gap));
    };
    return {number(keys.begin), number(keys.end)};
  }
  // Spans end at multiples of their keys, a power of two.
  RAPT_DEVICE static bool ends_span(int first, int next, int tiles) {
    return ((first ^ next) & -(tiles * config.keys)) != 0;
  }
  RAPT_DEVICE static int row_warp() {
    return config.key_warps == 1 ? Target::wave() : Target::wave() % config.row_warps;
  }
  RAPT_DEVICE static int key_warp() {
    return config.key_warps == 1 ? 0 : Target::wave() / config.row_warps;
  }

  // What a lane has of its rows so far.
  struct Results {
    float row_max[rows], sums[rows][1];
    Out out = {};

    RAPT_DEVICE Results() {
      RAPT_UNROLL
      for (int i = 0; i < rows; ++i) {
        row_max[i] = minus_infinity;
        sums[i][0] = 0;
      }
    }
  };
  // What it has promoted. Not one with the above: memory of the thread would hold both.
  class PromotedResults {
   public:
    // After the tile from key `first` on; `next` is the first key of the one that follows.
    RAPT_DEVICE void take(int first, int next, Results& results) {
      if (ends_span(first, next, sums_span)) sums_.promote(results.row_max, results.sums);
      if (ends_span(first, next, span)) out_.promote(results.row_max, results.out.at);
    }
    RAPT_DEVICE void join(Results& results) {
      sums_.join(results.row_max, results.sums);
      out_.join_out(results.row_max, results.out.at);
    }

   private:
    PromotedSums<Target, rows, 1> sums_;
    PromotedSums<Target, rows, Out::columns> out_;
  };

  // Leaves (row max, sum, out) in shared memory, where tiles were.
  RAPT_DEVICE static void store_results(const Results& results) {
    Target::cp_async_wait_all();
    barrier();  // the tiles are used
    RAPT_UNROLL
    for (int i = 0; i < rows; ++i) {
      const int row = row_warp() * warp_rows + row_of_lane<Target>(i);
      const float sum = sum_over<Target, 4>(results.sums[i][0]);
      if (Target::lane() % 4 == 0) Merge::store_state(key_warp(), row, {results.row_max[i], sum});
      RAPT_UNROLL
      for (int j = 0; j < Out::columns; j += 2)
        Merge::store_two(key_warp(), row, column_of_lane<Target>(j), results.out.at[i][j],
                         results.out.at[i][j + 1]);
    }
  }

  // Dot products become exponents where that takes more than scaling. Through memory of the thread,
  // since a loop over registers would be unrolled into a kernel several times as long.
  RAPT_DEVICE static void score_pairs(const Parameters& p, const WarpTile& warp_tile, int first,
                                      Scores& scores) {
    Scores memory;
    const int zero = Target::unknown(0);
    RAPT_UNROLL
    for (int i = 0; i < rows; ++i) {
      RAPT_UNROLL
      for (int j = 0; j < Scores::columns; ++j) memory.at[i + zero][j] = scores.at[i][j];
    }
    RAPT_NO_UNROLL
    for (int i = 0; i < rows; ++i) {
      const int row = warp_tile.first + row_of_lane<Target>(i);
      if (row >= warp_tile.end) continue;
      const SplitKvRow at = row_at(p, warp_tile.kv_head, row);
      const int position = at.query + warp_tile.offset;
      RAPT_NO_UNROLL
      for (int j = 0; j < Scores::columns; ++j) {
        const int key = key_of(warp_tile, first + column_of_lane<Target>(j));
        if (semantics::in_window(p.call.window, position, key, warp_tile.kv_len))
          memory.at[i][j] = scored_exponent<Target, Element>(
              p.call, warp_tile.sequence, at.head, at.query, position, key, memory.at[i][j]);
      }
    }
    RAPT_UNROLL
    for (int i = 0; i < rows; ++i) {
      RAPT_UNROLL
      for (int j = 0; j < Scores::columns; ++j) scores.at[i][j] = memory.at[i + zero][j];
    }
  }

  // Weights of pairs that dropout drops become 0; they were summed before. Through memory of the
  // thread, as above, and column by column: rows 8 apart and keys 8 apart share a draw, as long as
  // rows are queries.
  RAPT_DEVICE static void drop_pairs(const Parameters& p, const WarpTile& warp_tile, int first,
                                     Scores& scores) {
    Scores memory;
    const int zero = Target::unknown(0);
    RAPT_UNROLL
    for (int i = 0; i < rows; ++i) {
      RAPT_UNROLL
      for (int j = 0; j < Scores::columns; ++j) memory.at[i + zero][j] = scores.at[i][j];
    }
    int head = -1;
    semantics::DropoutPairs pairs(semantics::DropoutStream{});
    RAPT_NO_UNROLL
    for (int column = 0; column < 2; ++column) {
      RAPT_NO_UNROLL
      for (int i = 0; i < rows; ++i) {
        const int row = warp_tile.first + row_of_lane<Target>(i);
        if (row >= warp_tile.end) continue;
        const SplitKvRow at = row_at(p, warp_tile.kv_head, row);
        if (at.head != head) {
          head = at.head;
          pairs = semantics::DropoutPairs(
              semantics::dropout_stream(p.call.dropout, warp_tile.sequence, head));
        }
        RAPT_NO_UNROLL
        for (int j = column; j < Scores::columns; j += 2) {
          const int key = key_of(warp_tile, first + column_of_lane<Target>(j));
          if (!pairs.keeps(at.query, key)) memory.at[i][j] = 0;
        }
      }
    }
    RAPT_UNROLL
    for (int i = 0; i < rows; ++i) {
      RAPT_UNROLL
      for (int j = 0; j < Scores::columns; ++j) scores.at[i][j] = memory.at[i + zero][j];
    }
  }

  // Pairs outside the window become −∞, and those with keys behind the block's.
  RAPT_DEVICE static void apply_mask(const Parameters& p, const WarpTile& warp_tile, int first,
                                     Scores& scores) {
    const Index end = key_of(warp_tile, warp_tile.keys.end - 1) + 1;
    RAPT_UNROLL
    for (int i = 0; i < rows; ++i) {
      const int query = p.group.quotient(warp_tile.first + row_of_lane<Target>(i));
      const semantics::Range seen =
          semantics::key_range(p.call.window, query + warp_tile.offset, end);
      const Keys numbers = numbers_in(warp_tile, seen);
      const int leading =
          config.score_mod
              ? static_cast<int>(semantics::smaller(warp_tile.numbers.leading, seen.end))
              : 0;
      RAPT_UNROLL
      for (int j = 0; j < Scores::columns; ++j) {
        const int number = first + column_of_lane<Target>(j);
        const bool before_gap = config.score_mod && number < leading;
        if (!before_gap && (number < numbers.begin || number >= numbers.end))
          scores.at[i][j] = minus_infinity;
      }
    }
  }

  // Scores become weights. What was summed so far is to be multiplied by `rescale`. Lanes that
  // share a row share all their rows, and so what happens to huge ones.
  RAPT_DEVICE static void online_softmax(float scale, Scores& scores, Results& results,
                                         float (&rescale)[rows]) {
    bool huge = false;
    RAPT_UNROLL
    for (int i = 0; i < rows; ++i) {
      float(&row)[Scores::columns] = scores.at[i];
      float largest = row[0];
      RAPT_UNROLL
      for (int j = 1; j < Scores::columns; ++j) largest = fmaxf(largest, row[j]);
      largest = Target::product(largest_over<Target, 4>(largest), scale);
      const float new_max = fmaxf(largest, results.row_max[i]);
      rescale[i] = rescale_factor<Target>(results.row_max[i], new_max);
      results.row_max[i] = new_max;
      huge = huge || !can_be_fused(finite_max(new_max));
    }
    if (huge) {
      RAPT_UNROLL
      for (int i = 0; i < rows; ++i) {
        RAPT_UNROLL
        for (int j = 0; j < Scores::columns; ++j)
          scores.at[i][j] = Target::product(scores.at[i][j], scale);
      }
      scale = 1;
    }
    RAPT_UNROLL
    for (int i = 0; i < rows; ++i) {
      float(&row)[Scores::columns] = scores.at[i];
      const float base = finite_max(results.row_max[i]);
      float sum = 0;
      RAPT_UNROLL
      for (int j = 0; j < Scores::columns; ++j) {
        row[j] = Target::exp2(row[j] * scale - base);
        sum += row[j];
      }
      results.sums[i][0] = results.sums[i][0] * rescale[i] + sum;
    }
  }
};

}  // namespace rapt::gpu::flash_mma
