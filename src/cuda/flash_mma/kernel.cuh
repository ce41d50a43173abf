// flash_mma: online softmax on tensor cores, for every NVIDIA GPU since Ampere.
//
// A block takes some queries of one head through all keys that they see, a tile at a time; each of
// its warps has 16 or 32 of the rows for itself. Keys are on their way into shared memory while
// values are multiplied, and the other way round:
//
//   for each tile of keys:
//     wait for K; begin to load V;       S = Q Kᵀ
//     wait for V; begin to load next K;  P = 2^(S − reference), in the registers of S
//                                        O = O · 2^(old reference − reference) + P V
//
// Row maxima are reduced by shuffles among the 4 lanes that share a row; row sums stay apart in
// them until the end. O is set aside after every span of keys.
#pragma once

#include "src/cuda/flash_mma/loads.cuh"
#include "src/cuda/flash_mma/parameters.hpp"
#include "src/cuda/flash_mma/sixteen.cuh"
#include "src/cuda/flash_mma/tensor_float.cuh"
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
  static constexpr int threads = config.warps * 32, blocks = config.blocks;
  static constexpr int rows = Scores::rows, warp_rows = config.row_tiles * 16;
  static constexpr int block_rows = config.rows();
  // Byte offsets of the tiles: Q (rows, dim), K and V (keys, dim).
  static constexpr int row_bytes = TileLayout<Element, config.dim>::row_bytes;
  static constexpr int keys_at = block_rows * row_bytes;
  static constexpr int values_at = keys_at + config.keys * row_bytes;
  static constexpr int shared_bytes = values_at + config.keys * row_bytes;
  // Keys between two times that the result is set aside. A tile of f32 is summed apart, and then is
  // one addition.
  static constexpr int span = sizeof(Element) == 4 ? gpu::span_of_sums<Element> / 2 * config.keys
                                                   : gpu::span_of_sums<Element>;

  RAPT_DEVICE static void run(const Parameters& p) {
    // The last queries first: under a causal mask they take longest.
    const semantics::Call& call = p.call;
    const int tiles = static_cast<int>(semantics::divided_up(call.q_len, block_rows));
    const int heads = static_cast<int>(call.heads), pair = Target::block_x() / tiles;
    const semantics::Sequence sequence = semantics::sequence(call, pair / heads);
    const Work work = {
        .sequence = pair / heads,
        .head = pair % heads,
        .first = (tiles - 1 - Target::block_x() % tiles) * block_rows,
        .q_len = static_cast<int>(sequence.q_len),
        .kv_len = static_cast<int>(sequence.kv_len),
        .offset = static_cast<int>(sequence.offset),
    };
    if (work.first < work.q_len) attend(p, sequence, work);
  }

 private:
  // Queries `first` … of a head. Lengths are limited, so that their places fit into 32 bits.
  struct Work {
    int sequence, head, first, q_len, kv_len, offset;
  };
  struct Keys {
    int begin, end;
  };
  RAPT_DEVICE static Keys keys_in(semantics::Range range) {
    return {static_cast<int>(range.begin), static_cast<int>(range.end)};
  }

  RAPT_DEVICE static void attend(const Parameters& p, const semantics::Sequence& sequence,
                                 const Work& work) {
    const semantics::Call& call = p.call;
    const Index kv_head = semantics::kv_head_of(call, work.head);
    const KeyRows<Element> key_rows(p, sequence, call.k, call.k_stride, kv_head);
    const KeyRows<Element> value_rows(p, sequence, call.v, call.v_stride, kv_head);
    const auto last_of = [&](int first, int count) {
      return first + count < work.q_len ? first + count - 1 : work.q_len - 1;
    };
    const int last = last_of(work.first, block_rows);
    const Keys some = keys_in(semantics::keys_of_some(call.window, work.first + work.offset,
                                                      last + work.offset, work.kv_len));
    const bool whole_qk = gpu::whole_accesses<Element>(p.aligned, call.qk_dim);
    const bool whole_v = gpu::whole_accesses<Element>(p.aligned, call.v_dim);

    // Of the warp alone. One without queries sees nothing.
    const int warp_first = work.first + Target::wave() * warp_rows;
    const int warp_last = last_of(warp_first, warp_rows);
    Keys warp_some = keys_in(semantics::keys_of_some(call.window, warp_first + work.offset,
                                                     warp_last + work.offset, work.kv_len));
    if (warp_first > warp_last) warp_some = {0, 0};
    const Keys warp_all = keys_in(semantics::keys_of_all(call.window, warp_first + work.offset,
                                                         warp_last + work.offset, work.kv_len));
    const float scale = config.scoring ? 1.0f : call.scale * gpu::log2_e;

    const uint32_t queries = ptx::shared_address(block_memory);
    const uint32_t keys = queries + keys_at, values = queries + values_at;
    load_rows<Element, block_rows, config.dim, threads>(
        queries, call.qk_dim, whole_qk, false, 0, call.q, [&](int row) -> const Element* {
          if (work.first + row > last) return nullptr;
          return static_cast<const Element*>(call.q) +
                 semantics::row_offset(call.q_stride,
                                       semantics::query_place(call, sequence, work.first + row),
                                       work.head);
        });
    const auto load_keys = [&](uint32_t to, const KeyRows<Element>& from, Index dim, bool whole,
                               int tile) {
      const bool in_steps =
          whole && !from.paged() && tile >= some.begin && tile + config.keys <= some.end;
      load_rows<Element, config.keys, config.dim, threads>(
          to, dim, whole, in_steps, from.stride(), call.q, [&](int row) -> const Element* {
            const int key = tile + row;
            return key >= some.begin && key < some.end ? from.at(key) : nullptr;
          });
    };

    float references[rows];
    gpu::CompensatedSum sums[rows];
    Out out = {};
    gpu::SumsSetAside<Target, rows, Out::columns> earlier;
    RAPT_UNROLL
    for (int i = 0; i < rows; ++i) {
      references[i] = gpu::minus_infinity;
      sums[i] = {0, 0};
    }

    int tile = some.begin / config.keys * config.keys;
    if (tile < some.end) load_keys(keys, key_rows, call.qk_dim, whole_qk, tile);
    RAPT_NO_UNROLL
    for (; tile < some.end; tile += config.keys) {
      const bool seen = tile < warp_some.end && tile + config.keys > warp_some.begin;
      ptx::wait_for_copies();
      Target::block_barrier();  // the keys are there, the last tile's values are used
      load_keys(values, value_rows, call.v_dim, whole_v, tile);
      Scores scores;
      if (seen) Products::score(queries + Target::wave() * warp_rows * row_bytes, keys, scores);
      ptx::wait_for_copies();
      Target::block_barrier();  // the values are there, the keys are used
      if (tile + config.keys < some.end)
        load_keys(keys, key_rows, call.qk_dim, whole_qk, tile + config.keys);
      if (seen) {
        if constexpr (config.scoring) score_pairs(call, work, warp_first, tile, scores);
        if (tile < warp_all.begin || tile + config.keys > warp_all.end)
          hide(call, work, warp_first, tile, scores);
        float rescale[rows];
        weigh(scale, scores, references, sums, rescale);
        Products::accumulate(scores, rescale, values, out);
      }
      if ((tile + config.keys) % span == 0) earlier.set_aside(references, out.at);
    }
    earlier.join(references, out.at);
    finish(call, work, warp_first, whole_v, references, sums, out);
  }

  // Dot products become exponents where that takes more than scaling. Through memory of the thread,
  // since a loop over registers would be unrolled into a kernel several times as long.
  RAPT_DEVICE static void score_pairs(const semantics::Call& call, const Work& work, int warp_first,
                                      int tile, Scores& scores) {
    Scores memory;
    const int zero = Target::unknown(0);
    RAPT_UNROLL
    for (int i = 0; i < rows; ++i) {
      RAPT_UNROLL
      for (int j = 0; j < Scores::columns; ++j) memory.at[i + zero][j] = scores.at[i][j];
    }
    RAPT_NO_UNROLL
    for (int i = 0; i < rows; ++i) {
      const int query = warp_first + row_of_lane(i), position = query + work.offset;
      if (query >= work.q_len) continue;
      RAPT_NO_UNROLL
      for (int j = 0; j < Scores::columns; ++j) {
        const int key = tile + column_of_lane(j);
        if (semantics::in_window(call.window, position, key, work.kv_len))
          memory.at[i][j] = gpu::scored_exponent<Target, Element>(
              call, work.sequence, work.head, query, position, key, memory.at[i][j]);
      }
    }
    RAPT_UNROLL
    for (int i = 0; i < rows; ++i) {
      RAPT_UNROLL
      for (int j = 0; j < Scores::columns; ++j) scores.at[i][j] = memory.at[i + zero][j];
    }
  }

  // Pairs outside the window become −∞.
  RAPT_DEVICE static void hide(const semantics::Call& call, const Work& work, int warp_first,
                               int tile, Scores& scores) {
    RAPT_UNROLL
    for (int i = 0; i < rows; ++i) {
      const Keys seen = keys_in(semantics::key_range(
          call.window, warp_first + row_of_lane(i) + work.offset, work.kv_len));
      RAPT_UNROLL
      for (int j = 0; j < Scores::columns; ++j) {
        const int key = tile + column_of_lane(j);
        if (key < seen.begin || key >= seen.end) scores.at[i][j] = gpu::minus_infinity;
      }
    }
  }

  // Scores become weights. What was summed so far is to be multiplied by `rescale`.
  RAPT_DEVICE static void weigh(float scale, Scores& scores, float (&references)[rows],
                                gpu::CompensatedSum (&sums)[rows], float (&rescale)[rows]) {
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
      sums[i].scale(rescale[i]);
      sums[i].add(sum);
    }
  }

  RAPT_DEVICE static void finish(const semantics::Call& call, const Work& work, int warp_first,
                                 bool whole, const float (&references)[rows],
                                 const gpu::CompensatedSum (&sums)[rows], const Out& out) {
    const semantics::Sequence sequence = semantics::sequence(call, work.sequence);
    // A sink comes last: weights of 16 bits are relative to the largest score alone.
    const gpu::RowState sink = gpu::first_state(call, work.head);
    RAPT_UNROLL
    for (int i = 0; i < rows; ++i) {
      const float sum = gpu::sum_over<Target, 4>(sums[i].total());
      const float reference = fmaxf(references[i], sink.reference);
      const float base = gpu::finite_reference(reference);
      const float rescale = Target::exp2(references[i] - base);
      const gpu::RowState state = {reference,
                                   sum * rescale + sink.sum * Target::exp2(sink.reference - base)};
      const int query = warp_first + row_of_lane(i);
      if (query >= work.q_len) continue;
      const semantics::Place place = semantics::query_place(call, sequence, query);
      auto* row = static_cast<Element*>(call.out) +
                  semantics::row_offset(call.out_stride, place, work.head);
      const float factor = gpu::reciprocal_or_zero(state.sum) * rescale;
      RAPT_UNROLL
      for (int j = 0; j < Out::columns; j += 2) {
        const float two[2] = {out.at[i][j] * factor, out.at[i][j + 1] * factor};
        gpu::store_row<Target>(row, column_of_lane(j), call.v_dim, whole, two);
      }
      if (call.lse && Target::lane() % 4 == 0)
        call.lse[semantics::lse_offset(call, place, work.head)] =
            gpu::natural_log_sum<Target>(state);
    }
  }
};

}  // namespace rapt::cuda::flash_mma
