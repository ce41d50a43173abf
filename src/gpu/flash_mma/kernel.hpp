// flash_mma: online softmax on tensor cores, for every NVIDIA GPU since Ampere, and the emulator.
//
// The queries of a sequence and the heads of a group meet the group's kv head together, as in
// split_kv. A block takes some of these rows through the keys that they see, or through a chunk of
// those, a tile at a time; a warp has 16 or 32 of the rows, and all keys of a tile or a part of
// them. Keys are on their way into shared memory while values are multiplied, and the other way
// round:
//
//   for each tile of keys:
//     wait for K; begin to load V;       S = Q Kᵀ
//     wait for V; begin to load next K;  P = 2^(S − row max), in the registers of S
//                                        O = O · 2^(old row max − row max) + P V
//
// Where two warps have the same rows, they are done with a tile too soon for that: there, if shared
// memory has room for it, the next K and V are both on their way.
//
// Row maxima are reduced by shuffles among the 4 lanes that share a row; row sums stay apart in
// them until the end. Sums and O are promoted after every span of keys. In the end, warps that
// have the same rows merge what they have through shared memory. A row that has several chunks of
// keys is finished by split_kv's second kernel.
#pragma once

#include "src/gpu/flash_mma/block_rows.hpp"
#include "src/gpu/flash_mma/loads.hpp"
#include "src/gpu/flash_mma/mma_b16.hpp"
#include "src/gpu/flash_mma/mma_tf32.hpp"

namespace rapt::gpu::flash_mma {

template <class Target, TileConfig config, class Element>
struct BlockMmaOf {
  using Type = MmaB16<Target, config, Element>;
};
template <class Target, TileConfig config>
struct BlockMmaOf<Target, config, float> {
  using Type = MmaTf32<Target, config>;
};

template <class Target, TileConfig config, class Element>
struct FlashMma {
  using Parameters = flash_mma::Parameters;
  using BlockMma = typename BlockMmaOf<Target, config, Element>::Type;
  using Rows = BlockRows<Target, config, Element>;
  using Scores = typename Rows::Scores;
  static constexpr int threads = Rows::threads, blocks = Rows::blocks;
  static constexpr int warp_keys = Rows::warp_keys;
  // Byte offsets of the tiles: Q (rows, dim), and K and V (keys, dim) of each stage.
  static constexpr int row_bytes = TileLayout<Element, config.dim>::row_bytes;
  static constexpr int keys_at = BlockMma::query_tiles * config.rows() * row_bytes;
  static constexpr int values_at = keys_at + config.keys * row_bytes;
  static constexpr int stage_bytes = 2 * config.keys * row_bytes;
  static constexpr int tile_bytes = keys_at + config.stages * stage_bytes;
  static constexpr int merge_bytes = Rows::Merge::bytes;
  static constexpr int shared_bytes = merge_bytes > tile_bytes ? merge_bytes : tile_bytes;
  static constexpr int shared_limit = most_shared_bytes_with_mma;

  RAPT_DEVICE static void run(const Parameters& p) { Rows::run(p, attend); }

 private:
  // Leaves (row max, sum, out) of every row and key warp in shared memory.
  RAPT_DEVICE static void attend(const Parameters& p, const typename Rows::Block& block) {
    const semantics::Call& call = p.call;
    const RowTile& tile = block.tile;
    const typename Rows::WarpTile warp_tile = Rows::warp_tile_of(p, block);
    const KeyRows<Element> key_rows(call, p.page, tile.sequence, call.k, call.k_stride,
                                    warp_tile.kv_head);
    const KeyRows<Element> value_rows(call, p.page, tile.sequence, call.v, call.v_stride,
                                      warp_tile.kv_head);
    const bool whole_qk = whole_accesses<Element>(p.aligned, call.qk_dim);
    const bool whole_v = whole_accesses<Element>(p.aligned, call.v_dim);
    const bool score_mod = config.score_mod && has_score_mod(call);
    const float scale = score_mod ? 1.0f : call.scale * log2_e;

    const uint32_t queries = Target::shared_address();
    const uint32_t keys = queries + keys_at, values = queries + values_at;
    const uint32_t warp_queries = queries + Rows::row_warp() * Rows::warp_rows * row_bytes;
    const int of_key_warp = Rows::key_warp() * warp_keys * row_bytes;
    load_rows<Target, Element, Rows::block_rows, config.dim, threads>(
        queries, call.qk_dim, whole_qk, false, 0, call.q,
        [&](int row) { return Rows::query_row(p, block, row); });
    const auto load_keys = [&](uint32_t to, const KeyRows<Element>& from, Index dim, bool whole,
                               int first) {
      const bool in_steps = whole && !from.paged() && first + config.keys <= warp_tile.keys.end &&
                            Rows::adjacent(warp_tile, first, first + config.keys);
      load_rows<Target, Element, config.keys, config.dim, threads>(
          to, dim, whole, in_steps, from.stride(), call.q, [&](int row) -> const Element* {
            if (first + row >= warp_tile.keys.end) return nullptr;
            return from.at(Rows::key_of(warp_tile, first + row));
          });
    };

    typename Rows::Results results;
    typename Rows::PromotedResults promoted;
    int first = warp_tile.keys.begin;
    int stage = 0;  // of the tile, in bytes
    if (first < warp_tile.keys.end) {
      load_keys(keys, key_rows, call.qk_dim, whole_qk, first);
      if constexpr (config.stages == 2) {
        load_keys(values, value_rows, call.v_dim, whole_v, first);
        Target::cp_async_commit();
      }
    }
    if constexpr (BlockMma::prepares) {
      Target::cp_async_wait_all();
      BlockMma::prepare(queries);
    }
    RAPT_NO_UNROLL
    for (; first < warp_tile.keys.end; first += config.keys) {
      const int warp_first = first + Rows::key_warp() * warp_keys;
      const bool seen =
          warp_first < warp_tile.some.end && warp_first + warp_keys > warp_tile.some.begin;
      const int next = first + config.keys;
      Scores scores;
      if constexpr (config.stages == 1) {
        Target::cp_async_wait_all();
        Target::block_barrier();  // the keys are there, the last tile's values are used
        load_keys(values, value_rows, call.v_dim, whole_v, first);
        if (seen) BlockMma::score(warp_queries, keys + of_key_warp, scores);
        Target::cp_async_wait_all();
        Target::block_barrier();  // the values are there, the keys are used
        if (next < warp_tile.keys.end) load_keys(keys, key_rows, call.qk_dim, whole_qk, next);
      } else {
        if (next < warp_tile.keys.end) {
          const int other = stage_bytes - stage;
          load_keys(keys + other, key_rows, call.qk_dim, whole_qk, next);
          load_keys(values + other, value_rows, call.v_dim, whole_v, next);
        }
        Target::cp_async_commit();
        Target::cp_async_wait_previous();
        Target::block_barrier();  // the tile is there
        if (seen) BlockMma::score(warp_queries, keys + stage + of_key_warp, scores);
      }
      if (seen) {
        if constexpr (config.score_mod) {
          if (score_mod) Rows::score_pairs(p, warp_tile, warp_first, scores);
        }
        if (warp_first < warp_tile.all.begin || warp_first + warp_keys > warp_tile.all.end)
          Rows::apply_mask(p, warp_tile, warp_first, scores);
        float rescale[Rows::rows];
        Rows::online_softmax(scale, scores, results, rescale);
        if constexpr (config.score_mod) {
          if (call.dropout.seed) Rows::drop_pairs(p, warp_tile, warp_first, scores);
        }
        BlockMma::accumulate(scores, rescale, values + stage + of_key_warp, results.out);
      }
      if constexpr (config.stages == 2) {
        Target::block_barrier();  // the tile is used
        stage = stage_bytes - stage;
      }
      promoted.take(first, next, results);
    }
    promoted.join(results);
    Rows::store_results(results);
  }
};

}  // namespace rapt::gpu::flash_mma
