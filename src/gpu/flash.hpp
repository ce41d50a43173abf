// flash: online softmax, one kernel, no score matrix.
//
// A block takes some queries of one head through all keys that they see, a tile at a time:
//
//   for each tile of keys:
//     K → shared memory;  S = Q Kᵀ in registers
//     row max = max(row max, S);  P = 2^(S − row max) → shared memory;  V → where K was
//     O = O · 2^(old row max − row max) + P V in registers
//
// Row maxima are reduced by shuffles among the 8 lanes that share a row; row sums stay apart in
// them until the end. O is promoted after every span of keys. Tiles that every query sees whole
// skip all comparisons with key ranges. Dropout takes pairs out of P after they were summed.
#pragma once

#include "src/gpu/key_rows.hpp"
#include "src/gpu/launch.hpp"
#include "src/gpu/long_sums.hpp"
#include "src/gpu/softmax.hpp"
#include "src/gpu/tiles.hpp"

namespace rapt::gpu {

struct FlashParameters {
  semantics::Call call;
  DType dtype;
  bool aligned;  // rows of all tensors start at multiples of 16 bytes
};

struct FlashConfig {
  int dim;         // of queries, keys and values, at most; a multiple of 64
  int rows, keys;  // of a tile
  int blocks;      // that share a multiprocessor
};
// As much of 64 KiB of shared memory, and of the registers, as can be had.
constexpr FlashConfig flash_config(int dim) {
  return dim <= 64    ? FlashConfig{.dim = 64, .rows = 64, .keys = 64, .blocks = 4}
         : dim <= 128 ? FlashConfig{.dim = 128, .rows = 64, .keys = 32, .blocks = 3}
                      : FlashConfig{.dim = 256, .rows = 32, .keys = 16, .blocks = 3};
}

template <class Target, FlashConfig config, class Element>
struct Flash {
  using Parameters = FlashParameters;
  static constexpr int threads = 128, blocks = config.blocks;
  static constexpr int row_groups = threads / thread_columns, rows_each = config.rows / row_groups;
  static constexpr int keys_each = config.keys / thread_columns,
                       dims_each = config.dim / thread_columns;
  static constexpr int dim_stride = tile_stride<config.dim>, key_stride = tile_stride<config.keys>;
  // Byte offsets of the tiles: Q (rows, dim), K or V (keys, dim), P (rows, keys).
  static constexpr int keys_at = tile_bytes<config.rows, config.dim>;
  static constexpr int weights_at = keys_at + tile_bytes<config.keys, config.dim>;
  static constexpr int shared_bytes = weights_at + tile_bytes<config.rows, config.keys>;
  using Place = ThreadPlace<Target, row_groups>;
  // Else those of scores wait where weights will be.
  static constexpr bool parts_in_registers = rows_each * keys_each <= 16;

  RAPT_DEVICE static void run(const Parameters& p) {
    // The last queries first: under a causal mask they take longest.
    const semantics::Call& call = p.call;
    const Index tiles = semantics::divided_up(call.q_len, config.rows);
    const Index block = Target::block_x();
    const Index head = block / tiles % call.heads;
    const semantics::Sequence sequence = semantics::sequence(call, block / tiles / call.heads);
    const Index first = (tiles - 1 - block % tiles) * config.rows;
    if (first >= sequence.q_len) return;
    attend(p, sequence, head, first);
  }

 private:
  RAPT_DEVICE static void attend(const Parameters& p, const semantics::Sequence& sequence,
                                 Index head, Index first) {
    const semantics::Call& call = p.call;
    const Index kv_head = semantics::kv_head_of(call, head);
    const KeyRows<Element> key_rows(call, sequence, call.k, call.k_stride, kv_head);
    const KeyRows<Element> value_rows(call, sequence, call.v, call.v_stride, kv_head);
    const Index last = semantics::smaller(first + config.rows, sequence.q_len) - 1;
    const Index position = first + sequence.offset;
    const semantics::KeyRanges some =
        semantics::visible_to_some(call.window, position, last + sequence.offset, sequence.kv_len);
    const semantics::KeyRanges all =
        semantics::visible_to_all(call.window, position, last + sequence.offset, sequence.kv_len);
    const semantics::KeyTiles tiles = semantics::key_tiles(some, config.keys);
    const bool score_mod = has_score_mod(call);
    const float scale = score_mod ? 1.0f : call.scale * log2_e;
    const bool whole_qk = whole_accesses<Element>(p.aligned, call.qk_dim);
    const bool whole_v = whole_accesses<Element>(p.aligned, call.v_dim);

    const auto queries = Target::template shared<float>(0, config.rows * dim_stride);
    const auto keys = Target::template shared<float>(keys_at, config.keys * dim_stride);
    const auto weights = Target::template shared<float>(weights_at, config.rows * key_stride);

    load_tile<Target, Element, config.rows, config.dim, threads>(
        queries, call.qk_dim, whole_qk, [&](int row) -> const Element* {
          if (first + row > last) return nullptr;
          return static_cast<const Element*>(call.q) +
                 semantics::row_offset(call.q_stride,
                                       semantics::query_place(call, sequence, first + row), head);
        });

    const RowState start = first_state(call, head);
    float row_max[rows_each], out[rows_each][dims_each] = {};
    CompensatedSum sums[rows_each];
    PromotedSums<Target, rows_each, dims_each> promoted;
    RAPT_UNROLL
    for (int i = 0; i < rows_each; ++i) {
      row_max[i] = start.row_max;
      sums[i] = {Place::column() == 0 ? start.sum : 0.0f, 0};
    }

    for (Index number = 0; number < tiles.count; ++number) {
      const Index tile = tiles.first_key(number);
      const auto row_of = [&](const KeyRows<Element>& rows, int row) {
        const Index key = tile + row;
        return semantics::holds(some, key) ? rows.at(key) : nullptr;
      };
      Target::block_barrier();  // the last tile's values are used
      load_tile<Target, Element, config.keys, config.dim, threads>(
          keys, call.qk_dim, whole_qk, [&](int row) { return row_of(key_rows, row); });
      Target::block_barrier();
      float scores[rows_each][keys_each] = {};
      if constexpr (parts_in_registers) {
        multiply_by_rows<Place, rows_each, keys_each, config.dim>(queries, dim_stride, keys,
                                                                  dim_stride, scores);
      } else {
        static_assert(config.dim == 2 * products_of_sum);
        add_products<Place>(queries, dim_stride, keys, dim_stride, 0, scores);
        store_tile(weights, scores);
        clear(scores);
        add_products<Place>(queries, dim_stride, keys, dim_stride, products_of_sum, scores);
        add(weights, scores);
      }
      Target::block_barrier();  // the keys are used
      load_tile<Target, Element, config.keys, config.dim, threads>(
          keys, call.v_dim, whole_v, [&](int row) { return row_of(value_rows, row); });
      if (score_mod || !semantics::holds(all, {tile, tile + config.keys})) {
        store_tile(weights, scores);
        apply_mask(call, sequence, head, first, tile, score_mod, weights);
        RAPT_UNROLL
        for (int i = 0; i < rows_each; ++i) {
          RAPT_UNROLL
          for (int j = 0; j < keys_each; ++j) scores[i][j] = weights.load(weight_at(i, j));
        }
      }
      online_softmax(scale, scores, row_max, sums, out);
      store_tile(weights, scores);
      if (call.dropout.seed) drop_weights(call, sequence, head, first, tile, weights);
      Target::block_barrier();
      multiply_by_columns<Place, rows_each, dims_each, config.keys>(weights, key_stride, keys,
                                                                    dim_stride, out);
      if (ends_span<Element>(tile, tiles.first_key(number + 1))) promoted.promote(row_max, out);
    }
    promoted.join_out(row_max, out);
    finish(call, sequence, head, first, p.aligned, row_max, sums, out);
  }

  // Where the weights tile holds what a thread has in scores[i][j]. Nobody else touches it before
  // the next barrier.
  RAPT_DEVICE static int weight_at(int i, int j) {
    return Place::row(i) * key_stride + Place::column() + Place::columns * j;
  }
  template <class Tile>
  RAPT_DEVICE static void store_tile(Tile weights, const float (&scores)[rows_each][keys_each]) {
    RAPT_UNROLL
    for (int i = 0; i < rows_each; ++i) {
      RAPT_UNROLL
      for (int j = 0; j < keys_each; ++j) weights.store(weight_at(i, j), scores[i][j]);
    }
  }

  template <class Tile>
  RAPT_DEVICE static void add(Tile weights, float (&scores)[rows_each][keys_each]) {
    RAPT_UNROLL
    for (int i = 0; i < rows_each; ++i) {
      RAPT_UNROLL
      for (int j = 0; j < keys_each; ++j) scores[i][j] += weights.load(weight_at(i, j));
    }
  }
  RAPT_DEVICE static void clear(float (&scores)[rows_each][keys_each]) {
    RAPT_UNROLL
    for (int i = 0; i < rows_each; ++i) {
      RAPT_UNROLL
      for (int j = 0; j < keys_each; ++j) scores[i][j] = 0;
    }
  }

  // Dot products become exponents where that takes more than scaling; pairs that are not visible
  // become −∞. Through shared memory, since a loop over registers would be unrolled into a kernel
  // several times as long.
  template <class Tile>
  RAPT_DEVICE static void apply_mask(const semantics::Call& call,
                                     const semantics::Sequence& sequence, Index head, Index first,
                                     Index tile, bool score_mod, Tile weights) {
    RAPT_NO_UNROLL
    for (int i = 0; i < rows_each; ++i) {
      const Index query = first + Place::row(i), position = query + sequence.offset;
      const semantics::KeyRanges seen =
          semantics::visible_keys(call.window, position, sequence.kv_len);
      RAPT_NO_UNROLL
      for (int j = 0; j < keys_each; ++j) {
        const Index key = tile + Place::column() + Place::columns * j;
        const int at = weight_at(i, j);
        if (query >= sequence.q_len || !semantics::holds(seen, key))
          weights.store(at, minus_infinity);
        else if (score_mod)
          weights.store(at, scored_exponent<Target, Element>(call, sequence.index, head, query,
                                                             position, key, weights.load(at)));
      }
    }
  }

  // Weights of pairs that dropout drops become 0, those of others larger. They were summed before.
  template <class Tile>
  RAPT_DEVICE static void drop_weights(const semantics::Call& call,
                                       const semantics::Sequence& sequence, Index head, Index first,
                                       Index tile, Tile weights) {
    semantics::DropoutPairs pairs(semantics::dropout_stream(call.dropout, sequence.index, head));
    const float kept_scale = semantics::kept_scale<float>(call.dropout);
    RAPT_NO_UNROLL
    for (int i = 0; i < rows_each; ++i) {
      RAPT_NO_UNROLL
      for (int j = 0; j < keys_each; ++j) {
        const int at = weight_at(i, j);
        const bool kept =
            pairs.keeps(first + Place::row(i), tile + Place::column() + Place::columns * j);
        weights.store(at, kept ? weights.load(at) * kept_scale : 0.0f);
      }
    }
  }

  // Scores become weights; what was summed so far is brought to the new row max. Lanes that share
  // a row share all their rows, and so the branch for huge ones.
  RAPT_DEVICE static void online_softmax(float scale, float (&scores)[rows_each][keys_each],
                                         float (&row_max)[rows_each],
                                         CompensatedSum (&sums)[rows_each],
                                         float (&out)[rows_each][dims_each]) {
    bool huge = false;
    RAPT_UNROLL
    for (int i = 0; i < rows_each; ++i) {
      float largest = scores[i][0];
      RAPT_UNROLL
      for (int j = 1; j < keys_each; ++j) largest = scores[i][j] > largest ? scores[i][j] : largest;
      largest = Target::product(largest_over<Target, thread_columns>(largest), scale);
      const float new_max = largest > row_max[i] ? largest : row_max[i];
      const float rescale = rescale_factor<Target>(row_max[i], new_max);
      row_max[i] = new_max;
      huge = huge || !can_be_fused(finite_max(new_max));
      sums[i].scale(rescale);
      RAPT_UNROLL
      for (int x = 0; x < dims_each; ++x) out[i][x] *= rescale;
    }
    if (huge) {
      RAPT_UNROLL
      for (int i = 0; i < rows_each; ++i) {
        if (can_be_fused(finite_max(row_max[i]))) continue;
        RAPT_UNROLL
        for (int j = 0; j < keys_each; ++j) scores[i][j] = Target::product(scores[i][j], scale);
      }
    }
    RAPT_UNROLL
    for (int i = 0; i < rows_each; ++i) {
      const float base = finite_max(row_max[i]);
      const float row_scale = can_be_fused(base) ? scale : 1.0f;
      float sum = 0;
      RAPT_UNROLL
      for (int j = 0; j < keys_each; ++j) {
        scores[i][j] = Target::exp2(scores[i][j] * row_scale - base);
        sum += scores[i][j];
      }
      sums[i].add(sum);
    }
  }

  RAPT_DEVICE static void finish(const semantics::Call& call, const semantics::Sequence& sequence,
                                 Index head, Index first, bool aligned,
                                 const float (&row_max)[rows_each],
                                 const CompensatedSum (&sums)[rows_each],
                                 const float (&out)[rows_each][dims_each]) {
    RAPT_UNROLL
    for (int i = 0; i < rows_each; ++i) {
      const RowState state = {row_max[i], sum_over<Target, thread_columns>(sums[i].total())};
      const Index query = first + Place::row(i);
      if (query >= sequence.q_len) continue;
      const semantics::Place place = semantics::query_place(call, sequence, query);
      const OutRow<Element> row(call, place, head, aligned);
      const float factor = reciprocal_or_zero(state.sum);
      RAPT_UNROLL
      for (int g = 0; g < dims_each / 4; ++g) {
        float four[4];
        RAPT_UNROLL
        for (int y = 0; y < 4; ++y) four[y] = out[i][g * 4 + y] * factor;
        row.template store<Target>((g * thread_columns + Place::column()) * 4, four);
      }
      if (call.lse && Place::column() == 0)
        call.lse[semantics::lse_offset(call, place, head)] = natural_log_sum<Target>(state);
    }
  }
};

template <class Launcher>
void launch_flash(const FlashParameters& parameters, Where where) {
  const semantics::Call& call = parameters.call;
  with_element(parameters.dtype, [&]<class Element>() {
    with_one_of<64, 128, 256>(semantics::larger(call.qk_dim, call.v_dim), [&]<int dim>() {
      constexpr FlashConfig config = flash_config(dim);
      const Index tiles = semantics::divided_up(call.q_len, config.rows);
      Launcher::template launch<Flash<typename Launcher::Target, config, Element>>(
          {tiles * call.heads * call.batch}, parameters, where);
    });
  });
}

}  // namespace rapt::gpu
