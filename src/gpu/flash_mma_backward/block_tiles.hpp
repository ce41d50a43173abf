// The tiles of a block of flash_mma_backward: how they come into shared memory, which pairs of an
// owned and a streamed row are visible, and how sums of owned rows leave.
//
//   own q, dout     streamed k, v        or the other way round; each stage has two streamed tiles
//
// What a streamed query has beside its rows, lse and D, lies in the padding behind its q.
#pragma once

#include "src/gpu/backward.hpp"
#include "src/gpu/flash_mma/loads.hpp"
#include "src/gpu/flash_mma_backward/tile_config.hpp"

namespace rapt::gpu::flash_mma_backward {

// Of a query.
struct RowNumbers {
  float lse, exponent, delta;  // exponent: lse in base 2
};

template <class Target, TileConfig config, bool own_queries, class Element>
struct BlockTiles {
  using Tile = flash_mma::TileLayout<Element, config.dim>;
  using Pairs = flash_mma::RowsOf<config.products(), config.streamed>;
  using Sums = flash_mma::RowsOf<config.products(), config.dim>;
  static constexpr int threads = config.warps * 32, own = config.own(), streamed = config.streamed;
  static constexpr int rows = Pairs::rows, columns = Pairs::columns;  // of a lane
  static constexpr int warp_rows = config.own_tiles * 16;
  static constexpr int own_bytes = own * Tile::row_bytes, tile_bytes = streamed * Tile::row_bytes;
  static constexpr int stage_bytes = 2 * tile_bytes;
  static constexpr int shared_bytes = 2 * own_bytes + config.stages * stage_bytes;
  static_assert(streamed <= threads);

  RAPT_DEVICE static uint32_t own_tile(int which) {
    return Target::shared_address() + which * own_bytes;
  }
  RAPT_DEVICE static uint32_t own_of_warp(int which) {
    return own_tile(which) + Target::wave() * warp_rows * Tile::row_bytes;
  }
  RAPT_DEVICE static uint32_t streamed_tile(int stage, int which) {
    return Target::shared_address() + 2 * own_bytes + stage * stage_bytes + which * tile_bytes;
  }
  // In the owned tile, of a lane's row i; in the streamed one, of its column j.
  RAPT_DEVICE static int own_row(int i) {
    return Target::wave() * warp_rows + flash_mma::row_of_lane<Target>(i);
  }
  RAPT_DEVICE static int streamed_row(int j) { return flash_mma::column_of_lane<Target>(j); }

  // Begins to load q and dout of queries `first` … into two tiles; zeros behind the last one.
  RAPT_DEVICE static void load_queries(const BackwardParameters& p,
                                       const semantics::Sequence& sequence, Index head, int first,
                                       uint32_t to) {
    constexpr int count = own_queries ? own : streamed;
    const semantics::Call& call = p.call;
    const semantics::Gradients& g = p.gradients;
    const semantics::Place place = semantics::query_place(call, sequence, first);
    const auto load = [&](uint32_t tile, const void* data, const Index(&stride)[3], Index dim) {
      const Element* from =
          static_cast<const Element*>(data) + semantics::row_offset(stride, place, head);
      const bool whole = whole_accesses<Element>(p.aligned, dim);
      flash_mma::load_rows<Target, Element, count, config.dim, threads>(
          tile, dim, whole, whole && first + count <= sequence.q_len, stride[1], call.q,
          [&](int row) -> const Element* {
            return first + row < sequence.q_len ? from + row * stride[1] : nullptr;
          });
    };
    load(to, call.q, call.q_stride, call.qk_dim);
    load(to + count * Tile::row_bytes, g.dout, g.dout_stride, call.v_dim);
  }

  // The same of k and v. Keys that no query sees are zeros.
  RAPT_DEVICE static void load_keys(const BackwardParameters& p,
                                    const semantics::Sequence& sequence, Index kv_head, int first,
                                    uint32_t to) {
    constexpr int count = own_queries ? streamed : own;
    const semantics::Call& call = p.call;
    const semantics::Place place = semantics::unpaged_key_place(call, sequence, first);
    const semantics::KeyRanges seen = semantics::visible_to_some(
        call.window, sequence.offset, sequence.offset + sequence.q_len - 1, sequence.kv_len);
    const bool all_seen = semantics::holds(seen, {first, first + count});
    const auto load = [&](uint32_t tile, const void* data, const Index(&stride)[3], Index dim) {
      const Element* from =
          static_cast<const Element*>(data) + semantics::row_offset(stride, place, kv_head);
      const bool whole = whole_accesses<Element>(p.aligned, dim);
      flash_mma::load_rows<Target, Element, count, config.dim, threads>(
          tile, dim, whole, whole && all_seen, stride[1], call.k, [&](int row) -> const Element* {
            return semantics::holds(seen, first + row) ? from + row * stride[1] : nullptr;
          });
    };
    load(to, call.k, call.k_stride, call.qk_dim);
    load(to + count * Tile::row_bytes, call.v, call.v_stride, call.v_dim);
  }

  RAPT_DEVICE static RowNumbers row_numbers(const BackwardParameters& p,
                                            const semantics::Sequence& sequence, Index head,
                                            int query) {
    if (query >= sequence.q_len) return {0, 0, 0};
    const semantics::Place place = semantics::query_place(p.call, sequence, query);
    const float lse = p.call.lse[semantics::lse_offset(p.call, place, head)];
    return {lse, lse * log2_e, p.deltas[matrix_row(p.call, sequence, query, head)]};
  }
  // Of the streamed query with the thread's number.
  RAPT_DEVICE static void store_numbers(int stage, const RowNumbers& numbers) {
    if (Target::thread() >= streamed) return;
    const uint32_t words[4] = {__builtin_bit_cast(uint32_t, numbers.lse),
                               __builtin_bit_cast(uint32_t, numbers.exponent),
                               __builtin_bit_cast(uint32_t, numbers.delta), 0};
    Target::store_shared(numbers_at(stage, Target::thread()), words);
  }
  RAPT_DEVICE static RowNumbers load_numbers(int stage, int row) {
    uint32_t words[4];
    Target::load_shared(numbers_at(stage, row), words);
    return {__builtin_bit_cast(float, words[0]), __builtin_bit_cast(float, words[1]),
            __builtin_bit_cast(float, words[2])};
  }

  // The streamed rows that an owned one sees, or is seen by: those before `leading`, and from
  // `begin` to `end`.
  struct Seen {
    int leading, begin, end;

    RAPT_DEVICE bool holds(int row) const { return row < leading || (row >= begin && row < end); }
  };
  // Of row `row`, counted from the sequence's first.
  RAPT_DEVICE static Seen seen_by(const semantics::Call& call, const semantics::Sequence& sequence,
                                  int row) {
    if constexpr (own_queries) {
      if (row >= sequence.q_len) return {0, 0, 0};
      const semantics::KeyRanges keys =
          semantics::visible_keys(call.window, row + sequence.offset, sequence.kv_len);
      return {static_cast<int>(keys.first.end), static_cast<int>(keys.window.begin),
              static_cast<int>(keys.window.end)};
    } else {
      if (row >= sequence.kv_len) return {0, 0, 0};
      const semantics::Range queries =
          semantics::queries_of_keys(call.window, row, row, sequence.q_len, sequence.offset);
      return {0, static_cast<int>(queries.begin), static_cast<int>(queries.end)};
    }
  }

  // Of all owned rows of a warp: streamed rows that some may see, and such that all see.
  struct WarpSees {
    Seen some;
    int all_begin, all_end;

    RAPT_DEVICE bool some_of(int first) const {
      return first < some.leading || (first < some.end && first + streamed > some.begin);
    }
    RAPT_DEVICE bool all_of(int first) const {
      return all_begin <= first && first + streamed <= all_end;
    }
  };
  RAPT_DEVICE static WarpSees warp_sees(const semantics::Call& call,
                                        const semantics::Sequence& sequence, int first) {
    constexpr int far = 0x7fffffff;
    const Index end = own_queries ? sequence.q_len : sequence.kv_len;
    WarpSees all = {{0, far, 0}, 0, far};
    RAPT_UNROLL
    for (int i = 0; i < rows; ++i) {
      const int row = first + own_row(i);
      if (row >= end) continue;  // whatever it sees
      const Seen seen = seen_by(call, sequence, row);
      all = {{larger(all.some.leading, seen.leading), smaller(all.some.begin, seen.begin),
              larger(all.some.end, seen.end)},
             larger(all.all_begin, seen.begin),
             smaller(all.all_end, seen.end)};
    }
    RAPT_UNROLL
    for (int mask = 4; mask < 32; mask *= 2) {  // lanes that have other rows
      const auto other = [&](int value) { return Target::shuffle_xor(value, mask); };
      all = {{larger(all.some.leading, other(all.some.leading)),
              smaller(all.some.begin, other(all.some.begin)),
              larger(all.some.end, other(all.some.end))},
             larger(all.all_begin, other(all.all_begin)),
             smaller(all.all_end, other(all.all_end))};
    }
    return all;
  }

  // The first `count` owned rows of a gradient, times `factor`; zeros from row `used` on, which are
  // not in use. `first` is where the first one lies.
  RAPT_DEVICE static void store(void* data, bool is_f32, const Index (&stride)[3],
                                semantics::Place first, Index head, Index dims, bool aligned,
                                float factor, Index used, Index count, const Sums& sums) {
    const Index start = semantics::row_offset(stride, first, head);
    RAPT_UNROLL
    for (int i = 0; i < rows; ++i) {
      const int row = own_row(i);
      if (row >= count) continue;
      RAPT_UNROLL
      for (int j = 0; j < Sums::columns; j += 2) {
        const float two[2] = {row < used ? sums.at[i][j] * factor : 0.0f,
                              row < used ? sums.at[i][j + 1] * factor : 0.0f};
        store_gradient<Target, Element>(data, is_f32, start + row * stride[1],
                                        flash_mma::column_of_lane<Target>(j), dims, aligned, two);
      }
    }
  }

 private:
  RAPT_DEVICE static uint32_t numbers_at(int stage, int row) {
    return streamed_tile(stage, 0) + row * Tile::row_bytes + config.dim * Tile::size;
  }
  RAPT_DEVICE static int larger(int a, int b) { return a > b ? a : b; }
  RAPT_DEVICE static int smaller(int a, int b) { return a < b ? a : b; }
};

}  // namespace rapt::gpu::flash_mma_backward
