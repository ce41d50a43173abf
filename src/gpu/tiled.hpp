// Products with the score matrix through tiles in shared memory: the kernels of `shared` and of
// `flash_wide`.
//
// A block makes one tile of scores, or of out, from strips of both operands that pass through
// shared memory one after another, whatever the head dim is. While one is multiplied, the next is
// on its way into registers.
#pragma once

#include "src/gpu/key_rows.hpp"
#include "src/gpu/long_sums.hpp"
#include "src/gpu/score_matrix.hpp"
#include "src/gpu/tiles.hpp"

namespace rapt::gpu {

struct TiledConfig {
  int rows;   // of a tile; its keys too
  int strip;  // dims of the scores' operands
  bool plain = false;
};
// Large tiles read less; small ones fill the chip where there are few queries.
inline constexpr TiledConfig large_tiles = {.rows = 64, .strip = 32};
inline constexpr TiledConfig small_tiles = {.rows = 16, .strip = 64};
constexpr TiledConfig with_plain(TiledConfig config, bool plain) {
  config.plain = plain;
  return config;
}

struct TiledParameters {
  ScoreMatrix matrix;
  // A block's number: tile of keys or dims, then slice (of scores), then tile of queries, then
  // head.
  Divisor tiles, slices, query_tiles;
};

inline constexpr int tiled_threads = 128, tiled_row_groups = tiled_threads / thread_columns;
inline constexpr int out_tile_dims = 64;
inline constexpr int span_of_dims = 256;  // after which sums of scores are promoted

// Queries of one head, and the keys they see.
struct QueryTile {
  semantics::Sequence sequence;
  int head;
  Index first, last;          // first > last: there are none
  semantics::KeyRanges keys;  // of the chunk
};
RAPT_DEVICE QueryTile query_tile(const ScoreMatrix& m, const Divisor& tiles, int index, int rows) {
  const semantics::Call& call = m.call;
  const int heads = tiles.quotient(index);
  QueryTile t;
  t.sequence = semantics::sequence(call, m.heads.quotient(heads));
  t.head = m.heads.remainder(heads);
  t.first = Index{tiles.remainder(index)} * rows;
  t.last = semantics::smaller(t.first + rows, t.sequence.q_len) - 1;
  t.keys = {};
  if (t.first <= t.last) {
    t.keys =
        within_chunk(m, semantics::visible_to_some(call.window, t.first + t.sequence.offset,
                                                   t.last + t.sequence.offset, t.sequence.kv_len));
  }
  return t;
}

template <class Target, TiledConfig config, class Element>
struct TiledScores {
  using Parameters = TiledParameters;
  static constexpr int threads = tiled_threads, blocks = config.rows == 64 ? 3 : 4;
  static constexpr int rows_each = config.rows / tiled_row_groups;
  static constexpr int keys_each = config.rows / thread_columns;
  static constexpr int strip = config.strip, stride = tile_stride<strip>;
  static constexpr int keys_at = tile_bytes<config.rows, strip>, shared_bytes = 2 * keys_at;
  static constexpr bool most_shared_memory = true;
  using Place = ThreadPlace<Target, tiled_row_groups>;
  using Pieces = TilePieces<Target, Element, config.rows, strip, threads>;
  static_assert(Pieces::each == Pieces::at_once);

  RAPT_DEVICE static void run(const Parameters& p) {
    const ScoreMatrix m = known<config.plain>(p.matrix);
    const semantics::Call& call = m.call;
    const Index first_key = Index{p.tiles.remainder(Target::block_x())} * config.rows;
    const int slices = p.tiles.quotient(Target::block_x());
    const Index slice = p.slices.remainder(slices);
    const QueryTile t = query_tile(m, p.query_tiles, p.slices.quotient(slices), config.rows);
    if (!semantics::meet(t.keys, {first_key, first_key + config.rows})) return;

    const auto queries = Target::template shared<float>(0, config.rows * stride);
    const auto keys = Target::template shared<float>(keys_at, config.rows * stride);
    const bool whole = config.plain || whole_accesses<Element>(m.aligned, call.qk_dim);
    const KeyRows<Element> key_rows(call, t.sequence, call.k, call.k_stride,
                                    m.group.quotient(t.head));
    const Index end = semantics::smaller((slice + 1) * m.slice_dim, call.qk_dim);
    Pieces query_pieces, key_pieces;
    query_pieces.aim(0, [&](int row) -> const Element* {
      if (t.first + row > t.last) return nullptr;
      const semantics::Place place = semantics::query_place(call, t.sequence, t.first + row);
      return static_cast<const Element*>(call.q) +
             semantics::row_offset(call.q_stride, place, t.head);
    });
    key_pieces.aim(0, [&](int row) -> const Element* {
      const Index key = first_key + row;
      if (!semantics::holds(t.keys, key)) return nullptr;
      return key_rows.at(m.first_key + key);
    });
    const auto fetch = [&](Index dim) {
      query_pieces.fetch(0, dim, end, whole);
      key_pieces.fetch(0, dim, end, whole);
    };
    float scores[rows_each][keys_each] = {};
    const float no_row_max[rows_each] = {};
    PromotedSums<Target, rows_each, keys_each> promoted;
    fetch(slice * m.slice_dim);
    for (Index dim = slice * m.slice_dim; dim < end; dim += strip) {
      Target::block_barrier();  // the last strip is used
      query_pieces.store_tile(0, queries);
      key_pieces.store_tile(0, keys);
      Target::block_barrier();
      if (dim + strip < end) fetch(dim + strip);
      multiply_by_rows<Place, rows_each, keys_each, strip>(queries, stride, keys, stride, scores);
      if ((dim + strip) % span_of_dims == 0 && dim + strip < end)
        promoted.promote(no_row_max, scores);
    }
    promoted.join(no_row_max, scores);
    RAPT_UNROLL
    for (int i = 0; i < rows_each; ++i) {
      const Index query = t.first + Place::row(i);
      if (query > t.last) continue;
      float* row =
          m.scores + (slice * m.rows + matrix_row(call, t.sequence, query, t.head)) * m.chunk;
      RAPT_UNROLL
      for (int j = 0; j < keys_each; ++j) {
        const Index key = first_key + Place::column() + Place::columns * j;
        if (key < semantics::span_of(t.keys).end) row[key] = scores[i][j];
      }
    }
  }
};

template <class Target, TiledConfig config, class Element>
struct TiledOut {
  using Parameters = TiledParameters;
  static constexpr bool follows = true;
  static constexpr int threads = tiled_threads, blocks = 4;
  static constexpr int rows_each = config.rows / tiled_row_groups;
  static constexpr int dims = out_tile_dims, dims_each = dims / thread_columns;
  static constexpr int strip = 32;
  static constexpr int weights_stride = tile_stride<strip>;
  static constexpr int values_stride = tile_stride<dims>;
  static constexpr int values_at = tile_bytes<config.rows, strip>;
  static constexpr int shared_bytes = values_at + tile_bytes<strip, dims>;
  static constexpr bool most_shared_memory = true;
  using Place = ThreadPlace<Target, tiled_row_groups>;
  using WeightPieces = TilePieces<Fresh<Target>, float, config.rows, strip, threads>;
  using ValuePieces = TilePieces<Target, Element, strip, dims, threads>;
  static_assert(WeightPieces::each == WeightPieces::at_once);
  static_assert(ValuePieces::each == ValuePieces::at_once);

  RAPT_DEVICE static void run(const Parameters& p) {
    const ScoreMatrix m = known<config.plain>(p.matrix);
    const semantics::Call& call = m.call;
    const Index first_dim = Index{p.tiles.remainder(Target::block_x())} * dims;
    const QueryTile t =
        query_tile(m, p.query_tiles, p.tiles.quotient(Target::block_x()), config.rows);
    const auto weights = Target::template shared<float>(0, config.rows * weights_stride);
    const auto values = Target::template shared<float>(values_at, strip * values_stride);
    const bool whole = config.plain || whole_accesses<Element>(m.aligned, call.v_dim);
    const KeyRows<Element> value_rows(call, t.sequence, call.v, call.v_stride,
                                      m.group.quotient(t.head));
    const semantics::Range span = semantics::span_of(t.keys);
    const bool any_keys = span.begin < span.end;
    const Index end = any_keys ? span.end : 0;
    const Index padded_end = semantics::rounded_up(end, matrix_access);
    WeightPieces weight_pieces;
    ValuePieces value_pieces;
    weight_pieces.aim(0, [&](int row) -> const float* {
      if (t.first + row > t.last) return nullptr;
      return m.scores + matrix_row(call, t.sequence, t.first + row, t.head) * m.chunk;
    });
    const auto fetch_values = [&](Index key) {
      value_pieces.aim(0, [&](int row) -> const Element* {
        if (!semantics::holds(t.keys, key + row)) return nullptr;
        return value_rows.at(m.first_key + key + row);
      });
      value_pieces.fetch(0, first_dim, call.v_dim, whole);
    };
    float sums[rows_each][dims_each] = {};
    const float no_row_max[rows_each] = {};
    PromotedSums<Target, rows_each, dims_each> promoted;
    const Index first_strip = span.begin / strip * strip;
    if (any_keys) fetch_values(first_strip);
    Target::wait_for_previous();  // for weights; values were there before
    if (t.first > t.last) return;
    if (any_keys) weight_pieces.fetch(0, first_strip, padded_end, true);
    for (Index key = first_strip, next; key < end; key = next) {
      next = strip_after(t.keys, key);
      Target::block_barrier();  // the last strip is used
      weight_pieces.store_tile(0, weights);
      value_pieces.store_tile(0, values);
      Target::block_barrier();
      if (next < end) {
        fetch_values(next);
        weight_pieces.fetch(0, next, padded_end, true);
      }
      multiply_by_columns<Place, rows_each, dims_each, strip>(weights, weights_stride, values,
                                                              values_stride, sums);
      if (ends_span<Element>(key, next)) promoted.promote(no_row_max, sums);
    }
    promoted.join_out(no_row_max, sums);
    RAPT_UNROLL
    for (int i = 0; i < rows_each; ++i) {
      const Index query = t.first + Place::row(i);
      if (query > t.last) continue;
      RAPT_UNROLL
      for (int g = 0; g < dims_each / 4; ++g) {
        float four[4];
        RAPT_UNROLL
        for (int y = 0; y < 4; ++y) four[y] = sums[i][g * 4 + y];
        finish(m, t, query, first_dim + (g * thread_columns + Place::column()) * 4, four);
      }
    }
  }

 private:
  // The next strip, which is not one of the gap.
  RAPT_DEVICE static Index strip_after(const semantics::KeyRanges& keys, Index key) {
    const Index next = key + strip;
    if (config.plain || next < keys.first.end) return next;
    return semantics::larger(next, keys.window.begin / strip * strip);
  }

  RAPT_DEVICE static void finish(const ScoreMatrix& m, const QueryTile& t, Index query, Index dim,
                                 float (&four)[4]) {
    const semantics::Call& call = m.call;
    const Index row = matrix_row(call, t.sequence, query, t.head);
    const Index sums = row * call.v_dim,
                compensations_at = sums + m.rows * call.v_dim;  // in m.sums, if any
    float compensations[4] = {};
    if (m.first_key > 0) {
      const float rescale = m.states[3 * m.rows + row];
      RAPT_UNROLL
      for (int y = 0; y < 4; ++y) {
        if (dim + y >= call.v_dim) continue;
        CompensatedSum sum = {m.sums[sums + dim + y], m.sums[compensations_at + dim + y]};
        sum.scale(rescale);
        sum.add(four[y]);
        four[y] = sum.sum;
        compensations[y] = sum.compensation;
      }
    }
    if (!m.last) {
      store_row<Target>(m.sums + sums, dim, call.v_dim, call.v_dim % 4 == 0, four);
      store_row<Target>(m.sums + compensations_at, dim, call.v_dim, call.v_dim % 4 == 0,
                        compensations);
      return;
    }
    const float factor = reciprocal_or_zero(sum_of_weights(m, row));
    RAPT_UNROLL
    for (int y = 0; y < 4; ++y) four[y] = (four[y] + compensations[y]) * factor;
    const semantics::Place place = semantics::query_place(call, t.sequence, query);
    OutRow<Element>(call, place, t.head, m.aligned, config.plain).template store<Target>(dim, four);
  }
};

}  // namespace rapt::gpu
