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

#include "src/cuda/flash_mma/block_rows.cuh"
#include "src/cuda/flash_mma/loads.cuh"
#include "src/cuda/flash_mma/sixteen.cuh"
#include "src/cuda/flash_mma/tensor_float.cuh"

namespace rapt::cuda::flash_mma {

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
  using Rows = BlockRows<config, Element>;
  using Scores = Rows::Scores;
  static constexpr int threads = Rows::threads, blocks = Rows::blocks;
  static constexpr int warp_keys = Rows::warp_keys;
  // Byte offsets of the tiles: Q (rows, dim), and K and V (keys, dim) of each stage.
  static constexpr int row_bytes = TileLayout<Element, config.dim>::row_bytes;
  static constexpr int keys_at = Products::query_tiles * config.rows() * row_bytes;
  static constexpr int values_at = keys_at + config.keys * row_bytes;
  static constexpr int stage_bytes = 2 * config.keys * row_bytes;
  static constexpr int tile_bytes = keys_at + config.stages * stage_bytes;
  static constexpr int merge_bytes = Rows::Merge::bytes;
  static constexpr int shared_bytes = merge_bytes > tile_bytes ? merge_bytes : tile_bytes;

  RAPT_DEVICE static void run(const Parameters& p) { Rows::run(p, attend); }

 private:
  // Leaves (reference, sum, out) of every row and key warp in shared memory.
  RAPT_DEVICE static void attend(const Parameters& p, const Rows::Block& block) {
    const semantics::Call& call = p.call;
    const gpu::RowTile& tile = block.tile;
    const typename Rows::Work work = Rows::work_of(p, block);
    const KeyRows<Element> key_rows(p, tile.sequence, call.k, call.k_stride, work.kv_head);
    const KeyRows<Element> value_rows(p, tile.sequence, call.v, call.v_stride, work.kv_head);
    const bool whole_qk = gpu::whole_accesses<Element>(p.aligned, call.qk_dim);
    const bool whole_v = gpu::whole_accesses<Element>(p.aligned, call.v_dim);
    const bool scoring = config.scoring && gpu::has_scoring(call);
    const float scale = scoring ? 1.0f : call.scale * gpu::log2_e;

    const uint32_t queries = ptx::shared_address(block_memory);
    const uint32_t keys = queries + keys_at, values = queries + values_at;
    const uint32_t warp_queries = queries + Rows::row_warp() * Rows::warp_rows * row_bytes;
    const int of_key_warp = Rows::key_warp() * warp_keys * row_bytes;
    load_rows<Element, Rows::block_rows, config.dim, threads>(
        queries, call.qk_dim, whole_qk, false, 0, call.q,
        [&](int row) { return Rows::query_row(p, block, row); });
    const auto load_keys = [&](uint32_t to, const KeyRows<Element>& from, Index dim, bool whole,
                               int first) {
      const bool in_steps = whole && !from.paged() && first + config.keys <= work.keys.end;
      load_rows<Element, config.keys, config.dim, threads>(
          to, dim, whole, in_steps, from.stride(), call.q, [&](int row) -> const Element* {
            return first + row < work.keys.end ? from.at(first + row) : nullptr;
          });
    };

    typename Rows::Results results;
    typename Rows::Earlier earlier;
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
      const int warp_first = first + Rows::key_warp() * warp_keys;
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
          if (scoring) Rows::score_pairs(p, work, warp_first, scores);
        }
        if (warp_first < work.all.begin || warp_first + warp_keys > work.all.end)
          Rows::hide(p, work, warp_first, scores);
        float rescale[Rows::rows];
        Rows::weigh(scale, scores, results, rescale);
        Products::accumulate(scores, rescale, values + stage + of_key_warp, results.out);
      }
      if constexpr (config.stages == 2) {
        Target::block_barrier();  // the tile is used
        stage = stage_bytes - stage;
      }
      earlier.take(first, next, results);
    }
    earlier.join(results);
    Rows::leave(results);
  }
};

}  // namespace rapt::cuda::flash_mma
