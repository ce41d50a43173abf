// flash_mma: online softmax on tensor cores, for every NVIDIA GPU since Ampere.
//
// The queries of a sequence and the heads of a group meet the group's kv head together, as in
// split_kv. A block takes some of these rows through the keys that they see, or through a chunk of
// those, a tile at a time; a warp has 16 or 32 of the rows, and all keys of a tile or a part of
// them. Keys are on their way into shared memory while values are multiplied, and the other way
// round:
//
//   for each tile of keys:
//     wait for K; begin to load V;       S = Q Kᵀ
//     wait for V; begin to load next K;  P = 2^(S − reference), in the registers of S
//                                        O = O · 2^(old reference − reference) + P V
//
// Where two warps have the same rows, they are done with a tile too soon for that: there, if shared
// memory has room for it, the next K and V are both on their way.
//
// Row maxima are reduced by shuffles among the 4 lanes that share a row; row sums stay apart in
// them until the end. Sums and O are set aside after every span of keys. In the end, warps that
// have the same rows merge what they have through shared memory. A row that has several chunks of
// keys is finished by split_kv's second kernel.
#pragma once

#include "src/cuda/flash_mma/loads.cuh"
#include "src/cuda/flash_mma/parameters.hpp"
#include "src/cuda/flash_mma/sixteen.cuh"
#include "src/cuda/flash_mma/tensor_float.cuh"
#include "src/gpu/slices.hpp"
#include "src/gpu/sums.hpp"

namespace rapt::cuda::flash_mma {

using gpu::Index;

template <TileConfig config, class Element>
struct ProductsOf {
  using Type = Sixteen<config, Element>;
};
template <TileConfig config>
struct ProductsOf<config, float> {
  using Type = TensorFloat<config>;
};

template <TileConfig config, class Element>
struct Kernel {
  using Parameters = flash_mma::Parameters;
  using Products = ProductsOf<config, Element>::Type;
  using Scores = Products::Scores;
  using Out = Products::Out;
  static constexpr int threads = config.warps() * 32, blocks = config.blocks;
  static constexpr int rows = Scores::rows, warp_rows = config.row_tiles * 16;
  static constexpr int block_rows = config.rows(), warp_keys = config.warp_keys();
  // Byte offsets of the tiles: Q (rows, dim), and K and V (keys, dim) of each stage.
  static constexpr int row_bytes = TileLayout<Element, config.dim>::row_bytes;
  static constexpr int keys_at = Products::query_tiles * block_rows * row_bytes;
  static constexpr int values_at = keys_at + config.keys * row_bytes;
  static constexpr int stage_bytes = 2 * config.keys * row_bytes;
  static constexpr int tile_bytes = keys_at + config.stages * stage_bytes;
  // In the end, over the tiles: what key warps have of each row.
  static constexpr int lanes = config.dim / gpu::split_kv_elements;
  using Merge = gpu::Slices<Target, lanes, config.key_warps, block_rows, 8>;
  static constexpr int shared_bytes = Merge::bytes > tile_bytes ? Merge::bytes : tile_bytes;
  // Tiles between two times that the sums of weights are set aside, and the result. A tile's
  // weights are summed apart, and so is its part of a result of f32: they are one addition.
  static constexpr int sums_span = gpu::span_of_sums<float> / 2;
  static constexpr int span =
      sizeof(Element) == 4 ? sums_span : gpu::span_of_sums<Element> / warp_keys;
  static_assert((config.keys & (config.keys - 1)) == 0 && (span & (span - 1)) == 0);

  RAPT_DEVICE static void run(const Parameters& p) {
    const Block block = block_at(p, Target::block_x());
    if (block.tile.rows <= 0 || !block.tile.has_chunk(block.chunk)) return;
    attend(p, block);
    Target::block_barrier();
    // Looked up again, so that it takes no registers before.
    finish(p, block_at(p, Target::unknown(Target::block_x())));
  }

 private:
  struct Block {
    gpu::RowTile tile;
    int kv_head, chunk;
  };
  // All kv heads of a sequence start together, and of their rows the last ones first: under a
  // causal mask they take longest.
  RAPT_DEVICE static Block block_at(const Parameters& p, int index) {
    const int tiles = p.kv_heads.quotient(index), chunks = p.tiles.quotient(tiles);
    const int tile = p.tiles.value - 1 - p.tiles.remainder(tiles);
    return {gpu::row_tile(p, p.chunks.quotient(chunks), tile), p.kv_heads.remainder(index),
            p.chunks.remainder(chunks)};
  }

  // Rows go out from where attend() left them.
  RAPT_DEVICE static void finish(const Parameters& p, const Block& block) {
    const gpu::RowTile& tile = block.tile;
    for (int i = Target::thread(); i < tile.rows * lanes; i += threads) {
      float out[gpu::split_kv_elements];
      const gpu::RowState state = Merge::merged(i / lanes, i % lanes, out);
      const gpu::SplitKvRow row = gpu::row_at(p, block.kv_head, tile.first_row + i / lanes);
      const int at = i % lanes * gpu::split_kv_elements;
      if (tile.has_one_chunk())
        gpu::finish_row<Target, Element>(p, tile.sequence, row, at, state, out);
      else
        gpu::store_partial<Target>(p, gpu::first_partial(p, tile.sequence, row) + block.chunk, at,
                                   state, out);
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
  struct Work {
    int sequence, offset, kv_len, kv_head;
    int first, end;  // end: behind the last row of the block
    Keys keys;
    Keys some, all;  // those that at least one row of the warp sees, and those that all see
  };
  RAPT_DEVICE static Work work_of(const Parameters& p, const Block& block) {
    const gpu::RowTile& tile = block.tile;
    const int skipped = block.chunk * tile.chunk_keys, left = tile.keys - skipped;
    const int begin = tile.first_key + skipped;
    Work work = {
        .sequence = static_cast<int>(tile.sequence.index),
        .offset = static_cast<int>(tile.sequence.offset),
        .kv_len = static_cast<int>(tile.sequence.kv_len),
        .kv_head = block.kv_head,
        .first = tile.first_row + row_warp() * warp_rows,
        .end = tile.first_row + tile.rows,
        .keys = {begin, begin + (left < tile.chunk_keys ? left : tile.chunk_keys)},
        .some = {0, 0},
        .all = {0, 0},
    };
    if (work.first >= work.end) return work;
    const int last = (work.first + warp_rows < work.end ? work.first + warp_rows : work.end) - 1;
    const int first_position = p.group.quotient(work.first) + work.offset;
    const int last_position = p.group.quotient(last) + work.offset;
    work.some = keys_in(
        semantics::keys_of_some(p.call.window, first_position, last_position, work.keys.end));
    work.all = keys_in(
        semantics::keys_of_all(p.call.window, first_position, last_position, work.keys.end));
    return work;
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

  // Leaves (reference, sum, out) of every row and key warp in shared memory.
  RAPT_DEVICE static void attend(const Parameters& p, const Block& block) {
    const semantics::Call& call = p.call;
    const gpu::RowTile& tile = block.tile;
    const Work work = work_of(p, block);
    const KeyRows<Element> key_rows(p, tile.sequence, call.k, call.k_stride, work.kv_head);
    const KeyRows<Element> value_rows(p, tile.sequence, call.v, call.v_stride, work.kv_head);
    const bool whole_qk = gpu::whole_accesses<Element>(p.aligned, call.qk_dim);
    const bool whole_v = gpu::whole_accesses<Element>(p.aligned, call.v_dim);
    const bool scoring = config.scoring && gpu::has_scoring(call);
    const float scale = scoring ? 1.0f : call.scale * gpu::log2_e;

    const uint32_t queries = ptx::shared_address(block_memory);
    const uint32_t keys = queries + keys_at, values = queries + values_at;
    const uint32_t warp_queries = queries + row_warp() * warp_rows * row_bytes;
    const int of_key_warp = key_warp() * warp_keys * row_bytes;
    load_rows<Element, block_rows, config.dim, threads>(
        queries, call.qk_dim, whole_qk, false, 0, call.q, [&](int row) -> const Element* {
          if (row >= tile.rows) return nullptr;
          const gpu::SplitKvRow of = gpu::row_at(p, work.kv_head, tile.first_row + row);
          return static_cast<const Element*>(call.q) +
                 semantics::row_offset(
                     call.q_stride, semantics::query_place(call, tile.sequence, of.query), of.head);
        });
    const auto load_keys = [&](uint32_t to, const KeyRows<Element>& from, Index dim, bool whole,
                               int first) {
      const bool in_steps = whole && !from.paged() && first + config.keys <= work.keys.end;
      load_rows<Element, config.keys, config.dim, threads>(
          to, dim, whole, in_steps, from.stride(), call.q, [&](int row) -> const Element* {
            return first + row < work.keys.end ? from.at(first + row) : nullptr;
          });
    };

    float references[rows], sums[rows][1];
    Out out = {};
    gpu::SumsSetAside<Target, rows, 1> earlier_sums;
    gpu::SumsSetAside<Target, rows, Out::columns> earlier;
    RAPT_UNROLL
    for (int i = 0; i < rows; ++i) {
      references[i] = gpu::minus_infinity;
      sums[i][0] = 0;
    }

    int first = work.keys.begin;
    int stage = 0;  // of the tile, in bytes
    if (first < work.keys.end) {
      load_keys(keys, key_rows, call.qk_dim, whole_qk, first);
      if constexpr (config.stages == 2) {
        load_keys(values, value_rows, call.v_dim, whole_v, first);
        ptx::group_copies();
      }
    }
    if constexpr (Products::prepares) {
      ptx::wait_for_copies();
      Products::prepare(queries);
    }
    RAPT_NO_UNROLL
    for (; first < work.keys.end; first += config.keys) {
      const int warp_first = first + key_warp() * warp_keys;
      const bool seen = warp_first < work.some.end && warp_first + warp_keys > work.some.begin;
      const int next = first + config.keys;
      Scores scores;
      if constexpr (config.stages == 1) {
        ptx::wait_for_copies();
        Target::block_barrier();  // the keys are there, the last tile's values are used
        load_keys(values, value_rows, call.v_dim, whole_v, first);
        if (seen) Products::score(warp_queries, keys + of_key_warp, scores);
        ptx::wait_for_copies();
        Target::block_barrier();  // the values are there, the keys are used
        if (next < work.keys.end) load_keys(keys, key_rows, call.qk_dim, whole_qk, next);
      } else {
        if (next < work.keys.end) {
          const int other = stage_bytes - stage;
          load_keys(keys + other, key_rows, call.qk_dim, whole_qk, next);
          load_keys(values + other, value_rows, call.v_dim, whole_v, next);
        }
        ptx::group_copies();
        ptx::wait_for_earlier_copies();
        Target::block_barrier();  // the tile is there
        if (seen) Products::score(warp_queries, keys + stage + of_key_warp, scores);
      }
      if (seen) {
        if constexpr (config.scoring) {
          if (scoring) score_pairs(p, work, warp_first, scores);
        }
        if (warp_first < work.all.begin || warp_first + warp_keys > work.all.end)
          hide(p, work, warp_first, scores);
        float rescale[rows];
        weigh(scale, scores, references, sums, rescale);
        Products::accumulate(scores, rescale, values + stage + of_key_warp, out);
      }
      if constexpr (config.stages == 2) {
        Target::block_barrier();  // the tile is used
        stage = stage_bytes - stage;
      }
      if (ends_span(first, next, sums_span)) earlier_sums.set_aside(references, sums);
      if (ends_span(first, next, span)) earlier.set_aside(references, out.at);
    }
    earlier_sums.join(references, sums);
    earlier.join(references, out.at);
    ptx::wait_for_copies();
    Target::block_barrier();  // the tiles are used
    RAPT_UNROLL
    for (int i = 0; i < rows; ++i) {
      const int row = row_warp() * warp_rows + row_of_lane(i);
      const float sum = gpu::sum_over<Target, 4>(sums[i][0]);
      if (Target::lane() % 4 == 0) Merge::put_state(key_warp(), row, {references[i], sum});
      RAPT_UNROLL
      for (int j = 0; j < Out::columns; j += 2)
        Merge::put_two(key_warp(), row, column_of_lane(j), out.at[i][j], out.at[i][j + 1]);
    }
  }

  // Dot products become exponents where that takes more than scaling. Through memory of the thread,
  // since a loop over registers would be unrolled into a kernel several times as long.
  RAPT_DEVICE static void score_pairs(const Parameters& p, const Work& work, int first,
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
      const int row = work.first + row_of_lane(i);
      if (row >= work.end) continue;
      const gpu::SplitKvRow at = gpu::row_at(p, work.kv_head, row);
      const int position = at.query + work.offset;
      RAPT_NO_UNROLL
      for (int j = 0; j < Scores::columns; ++j) {
        const int key = first + column_of_lane(j);
        if (semantics::in_window(p.call.window, position, key, work.kv_len))
          memory.at[i][j] = gpu::scored_exponent<Target, Element>(
              p.call, work.sequence, at.head, at.query, position, key, memory.at[i][j]);
      }
    }
    RAPT_UNROLL
    for (int i = 0; i < rows; ++i) {
      RAPT_UNROLL
      for (int j = 0; j < Scores::columns; ++j) scores.at[i][j] = memory.at[i + zero][j];
    }
  }

  // Pairs outside the window become −∞, and those with keys behind the block's.
  RAPT_DEVICE static void hide(const Parameters& p, const Work& work, int first, Scores& scores) {
    RAPT_UNROLL
    for (int i = 0; i < rows; ++i) {
      const int query = p.group.quotient(work.first + row_of_lane(i));
      const Keys seen =
          keys_in(semantics::key_range(p.call.window, query + work.offset, work.keys.end));
      RAPT_UNROLL
      for (int j = 0; j < Scores::columns; ++j) {
        const int key = first + column_of_lane(j);
        if (key < seen.begin || key >= seen.end) scores.at[i][j] = gpu::minus_infinity;
      }
    }
  }

  // Scores become weights. What was summed so far is to be multiplied by `rescale`.
  RAPT_DEVICE static void weigh(float scale, Scores& scores, float (&references)[rows],
                                float (&sums)[rows][1], float (&rescale)[rows]) {
    RAPT_UNROLL
    for (int i = 0; i < rows; ++i) {
      float(&row)[Scores::columns] = scores.at[i];
      float largest = row[0];
      RAPT_UNROLL
      for (int j = 1; j < Scores::columns; ++j) largest = fmaxf(largest, row[j]);
      largest = gpu::largest_over<Target, 4>(largest) * scale;
      const float reference = fmaxf(largest, references[i]);
      const float base = gpu::finite_reference(reference);
      rescale[i] = Target::exp2(references[i] - base);
      references[i] = reference;
      float sum = 0;
      RAPT_UNROLL
      for (int j = 0; j < Scores::columns; ++j) {
        row[j] = Target::exp2(row[j] * scale - base);
        sum += row[j];
      }
      sums[i][0] = sums[i][0] * rescale[i] + sum;
    }
  }
};

}  // namespace rapt::cuda::flash_mma
