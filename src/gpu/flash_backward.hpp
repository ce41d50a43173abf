// flash_backward: P and dX recomputed a tile at a time, no score matrix, in two kernels that mirror
// each other. A block owns a tile of keys, or of queries, and streams tiles of the other through
// shared memory:
//
//   own K, V;   for each head of the group and tile of queries, Q and dO:
//     S = K Qᵀ,  dP = V dOᵀ  →  P and dX in registers;  dV += P dO;  dK += dX Q
//   own Q, dO;  for each tile of keys, K and V:
//     S = Q Kᵀ,  dP = dO Vᵀ  →  dX in registers;        dQ += dX K
//
// With dropout, P stands for Z P in dV.
//
// Seven products in place of the five of one kernel, whose blocks would all add to dQ: sums have
// one order, and nobody waits. dbias has a kernel of its own, where a block takes the pairs that
// share a tile of it.
#pragma once

#include "src/gpu/backward.hpp"
#include "src/gpu/tiles.hpp"

namespace rapt::gpu {

struct FlashBackwardParameters {
  BackwardParameters common;
  float* bias_parts;  // (slices, elements of dbias)
  Index bias_slices;
};

struct FlashBackwardConfig {
  int dim;            // of queries, keys and values, at most
  int own, streamed;  // rows of the two tiles
  int blocks;         // that share a multiprocessor
};
// As much of 64 KiB of shared memory as can be had: sums of a thread take 64 registers.
constexpr FlashBackwardConfig flash_backward_config(int dim) {
  return dim <= 64    ? FlashBackwardConfig{.dim = 64, .own = 64, .streamed = 32, .blocks = 3}
         : dim <= 128 ? FlashBackwardConfig{.dim = 128, .own = 32, .streamed = 16, .blocks = 3}
                      : FlashBackwardConfig{.dim = 256, .own = 16, .streamed = 8, .blocks = 3};
}

// The tiles of a block, and the pairs of an owned and a streamed row.
template <class Target, FlashBackwardConfig config, bool own_queries, class Element>
struct BackwardTiles {
  static constexpr int threads = 128, blocks = config.blocks;
  static constexpr int queries = own_queries ? config.own : config.streamed;
  static constexpr int keys = own_queries ? config.streamed : config.own;
  static constexpr int row_groups = threads / thread_columns;
  static constexpr int own_each = config.own / row_groups;
  static constexpr int streamed_each = config.streamed / thread_columns;
  static constexpr int queries_each = own_queries ? own_each : streamed_each;
  static constexpr int dims_each = config.dim / thread_columns;
  static constexpr int dim_stride = tile_stride<config.dim>;
  static constexpr int pair_stride = tile_stride<config.streamed>;
  // Two owned tiles (of q and dout, or k and v), two streamed ones, and one of pairs.
  static constexpr int own_bytes = tile_bytes<config.own, config.dim>;
  static constexpr int streamed_bytes = tile_bytes<config.streamed, config.dim>;
  static constexpr int streamed_at = 2 * own_bytes, pairs_at = streamed_at + 2 * streamed_bytes;
  static constexpr int shared_bytes = pairs_at + tile_bytes<config.own, config.streamed>;
  using Place = ThreadPlace<Target, row_groups>;
  using Pairs = float[own_each][streamed_each];
  using Sums = float[own_each][dims_each];

  RAPT_DEVICE static auto own(int which) {
    return Target::template shared<float>(which * own_bytes, config.own * dim_stride);
  }
  RAPT_DEVICE static auto streamed(int which) {
    return Target::template shared<float>(streamed_at + which * streamed_bytes,
                                          config.streamed * dim_stride);
  }
  RAPT_DEVICE static auto pairs() {
    return Target::template shared<float>(pairs_at, config.own * pair_stride);
  }

  // Of a thread's pair (i, j), in the tiles.
  RAPT_DEVICE static int streamed_row(int j) { return Place::column() + Place::columns * j; }
  RAPT_DEVICE static int query_of(int i, int j) {
    return own_queries ? Place::row(i) : streamed_row(j);
  }
  RAPT_DEVICE static int key_of(int i, int j) {
    return own_queries ? streamed_row(j) : Place::row(i);
  }
  RAPT_DEVICE static int pair_at(int i, int j) {
    return Place::row(i) * pair_stride + streamed_row(j);
  }

  RAPT_DEVICE static void load_queries(const BackwardParameters& p,
                                       const semantics::Sequence& sequence, Index head,
                                       Index first) {
    const semantics::Call& call = p.call;
    const semantics::Gradients& g = p.gradients;
    const auto load = [&]<class T>(int which, const T* data, const Index(&stride)[3], Index dim) {
      load_tile<Target, T, queries, config.dim, threads>(
          own_queries ? own(which) : streamed(which), dim, whole_accesses<T>(p.aligned, dim),
          [&](int row) -> const T* {
            if (first + row >= sequence.q_len) return nullptr;
            const semantics::Place place = semantics::query_place(call, sequence, first + row);
            return data + semantics::row_offset(stride, place, head);
          });
    };
    load(0, static_cast<const Element*>(call.q), call.q_stride, call.qk_dim);
    if (out_has_f32<Element>(call))
      load(1, static_cast<const float*>(g.dout), g.dout_stride, call.v_dim);
    else
      load(1, static_cast<const Element*>(g.dout), g.dout_stride, call.v_dim);
  }

  // Keys that no query sees are zeros.
  RAPT_DEVICE static void load_keys(const BackwardParameters& p,
                                    const semantics::Sequence& sequence, Index kv_head,
                                    Index first) {
    const semantics::Call& call = p.call;
    const auto load = [&](int which, const void* data, const Index(&stride)[3], Index dim) {
      load_tile<Target, Element, keys, config.dim, threads>(
          own_queries ? streamed(which) : own(which), dim, whole_accesses<Element>(p.aligned, dim),
          [&](int row) -> const Element* {
            const Index key = first + row;
            if (key >= sequence.kv_len ||
                semantics::is_empty(semantics::queries_of_keys(call.window, key, key,
                                                               sequence.q_len, sequence.offset)))
              return nullptr;
            const semantics::Place place = semantics::unpaged_key_place(call, sequence, key);
            return static_cast<const Element*>(data) +
                   semantics::row_offset(stride, place, kv_head);
          });
    };
    load(0, call.k, call.k_stride, call.qk_dim);
    load(1, call.v, call.v_stride, call.v_dim);
  }

  // What a thread's queries have beside their rows.
  struct Rows {
    float lse[queries_each], delta[queries_each];
  };
  RAPT_DEVICE static Rows load_rows(const BackwardParameters& p,
                                    const semantics::Sequence& sequence, Index head, Index first) {
    Rows rows;
    RAPT_UNROLL
    for (int x = 0; x < queries_each; ++x) {
      const Index query = first + query_of(x, x);
      rows.lse[x] = rows.delta[x] = 0;
      if (query >= sequence.q_len) continue;
      const semantics::Place place = semantics::query_place(p.call, sequence, query);
      rows.lse[x] = p.call.lse[semantics::lse_offset(p.call, place, head)];
      rows.delta[x] = p.deltas[matrix_row(p.call, sequence, query, head)];
    }
    return rows;
  }

  // Z P, dS and dX of the tiles in shared memory.
  struct Results {
    Pairs weight, of_score, of_dot;
  };
  RAPT_DEVICE static void multiply(const BackwardParameters& p, const semantics::Sequence& sequence,
                                   Index head, Index first_query, Index first_key, const Rows& rows,
                                   Results& results) {
    const semantics::Call& call = p.call;
    Pairs dots = {}, dout_v = {}, scores;
    multiply_by_rows<Place, own_each, streamed_each, config.dim>(own(0), dim_stride, streamed(0),
                                                                 dim_stride, dots);
    multiply_by_rows<Place, own_each, streamed_each, config.dim>(own(1), dim_stride, streamed(1),
                                                                 dim_stride, dout_v);
    const Index position = first_query + sequence.offset;
    const bool plain =
        !has_score_mod(call) && first_query + queries <= sequence.q_len &&
        semantics::holds(semantics::visible_to_all(call.window, position, position + queries - 1,
                                                   sequence.kv_len),
                         {first_key, first_key + keys});
    if (plain) {
      RAPT_UNROLL
      for (int i = 0; i < own_each; ++i) {
        RAPT_UNROLL
        for (int j = 0; j < streamed_each; ++j) scores[i][j] = call.scale * dots[i][j];
      }
    } else {
      apply_mask(call, sequence, head, first_query, first_key, dots, scores);
    }
    const bool drops = call.dropout.seed != nullptr;
    if (drops) {
      store_kept(call, sequence, head, first_query, first_key);
      multiply_kept(dout_v);
    }
    RAPT_UNROLL
    for (int i = 0; i < own_each; ++i) {
      RAPT_UNROLL
      for (int j = 0; j < streamed_each; ++j) {
        const int row = own_queries ? i : j;
        const PairGradients pair = gradients_of_score<Target>(
            call, scores[i][j], dots[i][j], dout_v[i][j], rows.lse[row], rows.delta[row]);
        results.weight[i][j] = pair.weight;
        results.of_score[i][j] = pair.of_score;
        results.of_dot[i][j] = pair.of_dot;
      }
    }
    if (drops) multiply_kept(results.weight);
  }

  // sums += pairs · one of the streamed tiles. Before it, nobody may be at work on pairs.
  RAPT_DEVICE static void add_product(const Pairs& factors, int which, Sums& sums) {
    store_pairs(factors);
    Target::block_barrier();
    multiply_by_columns<Place, own_each, dims_each, config.streamed>(
        pairs(), pair_stride, streamed(which), dim_stride, sums);
  }

  RAPT_DEVICE static void store_pairs(const Pairs& values) {
    RAPT_UNROLL
    for (int i = 0; i < own_each; ++i) {
      RAPT_UNROLL
      for (int j = 0; j < streamed_each; ++j) pairs().store(pair_at(i, j), values[i][j]);
    }
  }

  // The first `count` owned rows of a gradient, zeros from row `used` on, which are not in use;
  // place(row) is where one lies.
  template <class PlaceOf>
  RAPT_DEVICE static void store(void* data, bool is_f32, const Index (&stride)[3], Index head,
                                Index dims, bool aligned, float factor, Index used, Index count,
                                const Sums& sums, PlaceOf place) {
    RAPT_UNROLL
    for (int i = 0; i < own_each; ++i) {
      const int row = Place::row(i);
      if (row >= count) continue;
      RAPT_UNROLL
      for (int g = 0; g < dims_each / 4; ++g) {
        float four[4];
        RAPT_UNROLL
        for (int y = 0; y < 4; ++y) four[y] = row < used ? sums[i][g * 4 + y] * factor : 0.0f;
        store_gradient<Target, Element>(
            data, is_f32, semantics::row_offset(stride, place(row), head),
            (g * thread_columns + Place::column()) * 4, dims, aligned, four);
      }
    }
  }

 private:
  // Z of a thread's pairs, into the tile of pairs.
  RAPT_DEVICE static void store_kept(const semantics::Call& call,
                                     const semantics::Sequence& sequence, Index head,
                                     Index first_query, Index first_key) {
    semantics::DropoutPairs dropout(semantics::dropout_stream(call.dropout, sequence.index, head));
    const float kept_scale = semantics::kept_scale<float>(call.dropout);
    RAPT_NO_UNROLL
    for (int i = 0; i < own_each; ++i) {
      RAPT_NO_UNROLL
      for (int j = 0; j < streamed_each; ++j) {
        const bool kept = dropout.keeps(first_query + query_of(i, j), first_key + key_of(i, j));
        pairs().store(pair_at(i, j), kept ? kept_scale : 0.0f);
      }
    }
  }
  RAPT_DEVICE static void multiply_kept(Pairs& values) {
    RAPT_UNROLL
    for (int i = 0; i < own_each; ++i) {
      RAPT_UNROLL
      for (int j = 0; j < streamed_each; ++j) values[i][j] *= pairs().load(pair_at(i, j));
    }
  }

  // Where there is a bias, by loads that say which memory they mean.
  RAPT_DEVICE static float load_bias(const semantics::Call& call, Index sequence, Index head,
                                     Index query, Index key) {
    const Index at = semantics::pair_offset(call.bias_stride, sequence, head, query, key);
    return call.bias_is_f32
               ? Target::load(static_cast<const float*>(call.bias) + at)
               : Target::to_float(Target::load(static_cast<const Element*>(call.bias) + at));
  }

  // Dot products become scores, −∞ where a pair is not visible. Through shared memory, as in
  // flash.hpp: a loop over registers would be unrolled into a kernel several times as long.
  RAPT_DEVICE static void apply_mask(const semantics::Call& call,
                                     const semantics::Sequence& sequence, Index head,
                                     Index first_query, Index first_key, const Pairs& dots,
                                     Pairs& scores) {
    const Index slope_at = sequence.index * call.alibi_stride + head;
    const semantics::Scoring<float> scoring = {
        call.scale, call.softcap, call.alibi ? Target::load(call.alibi + slope_at) : 0.0f};
    store_pairs(dots);
    RAPT_NO_UNROLL
    for (int i = 0; i < own_each; ++i) {
      RAPT_NO_UNROLL
      for (int j = 0; j < streamed_each; ++j) {
        const Index query = first_query + query_of(i, j), key = first_key + key_of(i, j);
        const Index position = query + sequence.offset;
        const int at = pair_at(i, j);
        const bool sees = query < sequence.q_len &&
                          semantics::in_window(call.window, position, key, sequence.kv_len) &&
                          !hidden_by_mask(call, sequence.index, head, query, key);
        if (!sees) {
          pairs().store(at, minus_infinity);
          continue;
        }
        const float bias = call.bias ? load_bias(call, sequence.index, head, query, key) : 0.0f;
        pairs().store(at, semantics::score(scoring, pairs().load(at), bias, position, key));
      }
    }
    RAPT_UNROLL
    for (int i = 0; i < own_each; ++i) {
      RAPT_UNROLL
      for (int j = 0; j < streamed_each; ++j) scores[i][j] = pairs().load(pair_at(i, j));
    }
  }
};

// Sums over streamed rows, which leave their registers after every span.
template <class Target, int rows, int columns>
class SpanSums {
 public:
  float sums[rows][columns] = {};

  RAPT_DEVICE void end_span() { promoted_.promote(same_max_, sums); }
  RAPT_DEVICE void finish() { promoted_.join_out(same_max_, sums); }

 private:
  const float same_max_[rows] = {};  // nothing is relative to a row max
  PromotedSums<Target, rows, columns> promoted_;
};

// dk and dv.
template <class Target, FlashBackwardConfig config, class Element>
struct FlashKeyGradients : BackwardTiles<Target, config, false, Element> {
  using Parameters = FlashBackwardParameters;
  using Tiles = BackwardTiles<Target, config, false, Element>;

  RAPT_DEVICE static void run(const Parameters& parameters) {
    const BackwardParameters& p = parameters.common;
    const semantics::Call& call = p.call;
    const semantics::Gradients& g = p.gradients;
    const Index tiles = semantics::divided_up(call.kv_len, Tiles::keys);
    const Index block = Target::block_x(), first = block % tiles * Tiles::keys;
    const Index kv_head = block / tiles % call.kv_heads;
    const semantics::Sequence sequence = semantics::sequence(call, block / tiles / call.kv_heads);
    const Index stored = semantics::stored_keys(call, sequence);
    if (first >= stored) return;
    const Index end = semantics::smaller(first + Tiles::keys, sequence.kv_len);
    semantics::Range queries = {0, 0};
    if (first < end)
      queries =
          semantics::queries_of_keys(call.window, first, end - 1, sequence.q_len, sequence.offset);
    SpanSums<Target, Tiles::own_each, Tiles::dims_each> dk, dv;
    Tiles::load_keys(p, sequence, kv_head, first);
    const Index group = call.heads / call.kv_heads;
    int terms = 0;
    for (Index head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      for (Index query = queries.begin / Tiles::queries * Tiles::queries; query < queries.end;
           query += Tiles::queries) {
        Target::block_barrier();  // the last tile's queries are used
        Tiles::load_queries(p, sequence, head, query);
        const typename Tiles::Rows rows = Tiles::load_rows(p, sequence, head, query);
        Target::block_barrier();
        typename Tiles::Results pairs;
        Tiles::multiply(p, sequence, head, query, first, rows, pairs);
        Tiles::add_product(pairs.weight, 1, dv.sums);
        Target::block_barrier();  // the weights are used
        Tiles::add_product(pairs.of_dot, 0, dk.sums);
        terms += Tiles::queries;
        if (terms < span_of_sums<Element>) continue;
        terms = 0;
        dk.end_span();
        dv.end_span();
      }
    }
    dk.finish();
    dv.finish();
    const auto place = [&](int row) {
      return semantics::unpaged_key_place(call, sequence, first + row);
    };
    Tiles::store(g.dk, g.dk_is_f32, g.dk_stride, kv_head, call.qk_dim, p.aligned, call.scale,
                 end - first, stored - first, dk.sums, place);
    Tiles::store(g.dv, g.dv_is_f32, g.dv_stride, kv_head, call.v_dim, p.aligned, 1, end - first,
                 stored - first, dv.sums, place);
  }
};

// dq, and each row's part of dalibi.
template <class Target, FlashBackwardConfig config, class Element>
struct FlashQueryGradients : BackwardTiles<Target, config, true, Element> {
  using Parameters = FlashBackwardParameters;
  using Tiles = BackwardTiles<Target, config, true, Element>;

  RAPT_DEVICE static void run(const Parameters& parameters) {
    // The last queries first: under a causal mask they take longest.
    const BackwardParameters& p = parameters.common;
    const semantics::Call& call = p.call;
    const semantics::Gradients& g = p.gradients;
    const Index tiles = semantics::divided_up(call.q_len, Tiles::queries);
    const Index block = Target::block_x();
    const Index first = (tiles - 1 - block % tiles) * Tiles::queries;
    const Index head = block / tiles % call.heads;
    const semantics::Sequence sequence = semantics::sequence(call, block / tiles / call.heads);
    if (first >= sequence.q_len) return;
    const Index last = semantics::smaller(first + Tiles::queries, sequence.q_len) - 1;
    const semantics::KeyTiles key_tiles =
        semantics::key_tiles(semantics::visible_to_some(call.window, first + sequence.offset,
                                                        last + sequence.offset, sequence.kv_len),
                             Tiles::keys);
    SpanSums<Target, Tiles::own_each, Tiles::dims_each> dq;
    CompensatedSum slope_parts[Tiles::own_each] = {};
    Tiles::load_queries(p, sequence, head, first);
    const typename Tiles::Rows rows = Tiles::load_rows(p, sequence, head, first);
    int terms = 0;
    for (Index number = 0; number < key_tiles.count; ++number) {
      const Index key = key_tiles.first_key(number);
      Target::block_barrier();  // the last tile's keys are used
      Tiles::load_keys(p, sequence, semantics::kv_head_of(call, head), key);
      Target::block_barrier();
      typename Tiles::Results pairs;
      Tiles::multiply(p, sequence, head, first, key, rows, pairs);
      if (g.dalibi) add_slope_parts(pairs, first + sequence.offset, key, slope_parts);
      Tiles::add_product(pairs.of_dot, 0, dq.sums);
      terms += Tiles::keys;
      if (terms < span_of_sums<Element>) continue;
      terms = 0;
      dq.end_span();
    }
    dq.finish();
    Tiles::store(g.dq, g.dq_is_f32, g.dq_stride, head, call.qk_dim, p.aligned, call.scale,
                 last + 1 - first, last + 1 - first, dq.sums,
                 [&](int row) { return semantics::query_place(call, sequence, first + row); });
    if (!g.dalibi) return;
    RAPT_UNROLL
    for (int i = 0; i < Tiles::own_each; ++i) {
      const float part = sum_over<Target, thread_columns>(slope_parts[i].total());
      const Index query = first + Tiles::Place::row(i);
      if (query <= last && Tiles::Place::column() == 0)
        p.slope_parts[matrix_row(call, sequence, query, head)] = part;
    }
  }

 private:
  RAPT_DEVICE static void add_slope_parts(const typename Tiles::Results& pairs, Index position,
                                          Index key, CompensatedSum (&parts)[Tiles::own_each]) {
    RAPT_UNROLL
    for (int i = 0; i < Tiles::own_each; ++i) {
      float sum = 0;
      RAPT_UNROLL
      for (int j = 0; j < Tiles::streamed_each; ++j)
        sum -= pairs.of_score[i][j] *
               distance_of(position + Tiles::query_of(i, j), key + Tiles::key_of(i, j));
      parts[i].add(sum);
    }
  }
};

// Of dbias, a tile of queries and keys; an axis over which it is broadcast counts as one tile. What
// shares the tile is cut into slices, a block each.
template <class Target, FlashBackwardConfig config, class Element>
struct FlashBiasParts : BackwardTiles<Target, config, true, Element> {
  using Parameters = FlashBackwardParameters;
  using Tiles = BackwardTiles<Target, config, true, Element>;

  RAPT_DEVICE static void run(const Parameters& parameters) {
    const BackwardParameters& p = parameters.common;
    const semantics::Call& call = p.call;
    const Index(&size)[4] = p.gradients.dbias_size;
    const Index tile[4] = {1, 1, Tiles::queries, Tiles::keys};
    const Index all[4] = {call.batch, call.heads, call.q_len, call.kv_len};
    Index first[4], steps[4], block = Target::block_x() / parameters.bias_slices, count = 1;
    const Index slice = Target::block_x() % parameters.bias_slices;
    RAPT_UNROLL
    for (int axis = 3; axis >= 0; --axis) {
      const bool broadcast = size[axis] == 1;
      const Index tiles = broadcast ? 1 : semantics::divided_up(size[axis], tile[axis]);
      first[axis] = block % tiles * tile[axis];
      block /= tiles;
      steps[axis] = broadcast ? semantics::divided_up(all[axis], tile[axis]) : 1;
      count *= steps[axis];
    }
    const Index each = semantics::divided_up(count, parameters.bias_slices);
    CompensatedSum sums[Tiles::own_each][Tiles::streamed_each] = {};
    for (Index step = slice * each; step < semantics::smaller((slice + 1) * each, count); ++step) {
      Index rest = step, at[4];
      RAPT_UNROLL
      for (int axis = 3; axis >= 0; --axis) {
        at[axis] = first[axis] + rest % steps[axis] * tile[axis];
        rest /= steps[axis];
      }
      if (at[0] < call.batch && at[1] < call.heads) add(p, at, sums);
    }
    finish(parameters, first, slice, sums);
  }

 private:
  RAPT_DEVICE static void add(const BackwardParameters& p, const Index (&at)[4],
                              CompensatedSum (&sums)[Tiles::own_each][Tiles::streamed_each]) {
    const semantics::Call& call = p.call;
    const Index head = at[1], query = at[2], key = at[3];
    const semantics::Sequence sequence = semantics::sequence(call, at[0]);
    if (query >= sequence.q_len) return;
    const Index last = semantics::smaller(query + Tiles::queries, sequence.q_len) - 1;
    if (!semantics::meet(semantics::visible_to_some(call.window, query + sequence.offset,
                                                    last + sequence.offset, sequence.kv_len),
                         {key, key + Tiles::keys}))
      return;
    Target::block_barrier();  // the last tiles are used
    Tiles::load_queries(p, sequence, head, query);
    Tiles::load_keys(p, sequence, semantics::kv_head_of(call, head), key);
    const typename Tiles::Rows rows = Tiles::load_rows(p, sequence, head, query);
    Target::block_barrier();
    typename Tiles::Results pairs;
    Tiles::multiply(p, sequence, head, query, key, rows, pairs);
    RAPT_UNROLL
    for (int i = 0; i < Tiles::own_each; ++i) {
      RAPT_UNROLL
      for (int j = 0; j < Tiles::streamed_each; ++j) sums[i][j].add(pairs.of_score[i][j]);
    }
  }

  RAPT_DEVICE static void finish(
      const Parameters& parameters, const Index (&first)[4], Index slice,
      const CompensatedSum (&sums)[Tiles::own_each][Tiles::streamed_each]) {
    const Index(&size)[4] = parameters.common.gradients.dbias_size;
    typename Tiles::Pairs totals;
    RAPT_UNROLL
    for (int i = 0; i < Tiles::own_each; ++i) {
      RAPT_UNROLL
      for (int j = 0; j < Tiles::streamed_each; ++j) totals[i][j] = sums[i][j].total();
    }
    Tiles::store_pairs(totals);
    Target::block_barrier();
    const int queries = size[2] == 1 ? 1 : Tiles::queries, keys = size[3] == 1 ? 1 : Tiles::keys;
    const int of_query = Tiles::queries / queries, of_key = Tiles::keys / keys;  // that share one
    for (int i = Target::thread(); i < queries * keys; i += Tiles::threads) {
      const int query = i / keys, key = i % keys;
      if (first[2] + query >= size[2] || first[3] + key >= size[3]) continue;
      CompensatedSum sum = {0, 0};
      for (int y = 0; y < of_query; ++y) {
        for (int x = 0; x < of_key; ++x)
          sum.add(Tiles::pairs().load((query + y) * Tiles::pair_stride + key + x));
      }
      const Index element =
          ((first[0] * size[1] + first[1]) * size[2] + first[2] + query) * size[3] + first[3] + key;
      parameters.bias_parts[slice * size[0] * size[1] * size[2] * size[3] + element] = sum.total();
    }
  }
};

// One thread an element of dbias: its slices, in order.
template <class Target, class Element>
struct FlashBiasGradients {
  using Parameters = FlashBackwardParameters;
  static constexpr int threads = 256, blocks = 4, shared_bytes = 0;

  RAPT_DEVICE static void run(const Parameters& parameters) {
    const semantics::Gradients& g = parameters.common.gradients;
    const Index(&size)[4] = g.dbias_size;
    const Index element = Index{Target::block_x()} * threads + Target::thread();
    const Index elements = size[0] * size[1] * size[2] * size[3];
    if (element >= elements) return;
    CompensatedSum sum = {0, 0};
    for (Index slice = 0; slice < parameters.bias_slices; ++slice)
      sum.add(parameters.bias_parts[slice * elements + element]);
    const float result[1] = {sum.total()};
    const Index at = semantics::pair_offset(g.dbias_stride, element / size[3] / size[2] / size[1],
                                            element / size[3] / size[2] % size[1],
                                            element / size[3] % size[2], element % size[3]);
    store_gradient<Target, Element>(g.dbias, g.dbias_is_f32, at, 0, 1, false, result);
  }
};

// Tiles of dbias.
inline Index bias_tiles(const Index (&size)[4], const FlashBackwardConfig& config) {
  return size[0] * size[1] * semantics::divided_up(size[2], config.own) *
         semantics::divided_up(size[3], config.streamed);
}

template <class Launcher, FlashBackwardConfig config, class Element>
void launch_flash_bias(const FlashBackwardParameters& parameters, Where where) {
  using Target = typename Launcher::Target;
  using Gradients = FlashBiasGradients<Target, Element>;
  const Index(&size)[4] = parameters.common.gradients.dbias_size;
  const Index elements = size[0] * size[1] * size[2] * size[3];
  if (elements == 0) return;
  Launcher::template launch<FlashBiasParts<Target, config, Element>>(
      {bias_tiles(size, config) * parameters.bias_slices}, parameters, where);
  Launcher::template launch<Gradients>({semantics::divided_up(elements, Gradients::threads)},
                                       parameters, where);
}

// What the kernels of dq, dk and dv need before them, D, and what comes beside them: dbias, dsinks
// and dalibi.
template <class Launcher>
void launch_before_gradients(const FlashBackwardParameters& parameters, Where where) {
  with_element(parameters.common.dtype, [&]<class Element>() {
    launch_deltas<Launcher, Element>(parameters.common, where);
  });
}
template <class Launcher>
void launch_other_gradients(const FlashBackwardParameters& parameters, Where where) {
  const BackwardParameters& p = parameters.common;
  if (p.gradients.dbias) {
    with_element(p.dtype, [&]<class Element>() {
      with_one_of<64, 128, 256>(semantics::larger(p.call.qk_dim, p.call.v_dim), [&]<int dim>() {
        launch_flash_bias<Launcher, flash_backward_config(dim), Element>(parameters, where);
      });
    });
  }
  launch_sums_over_rows<Launcher>(p, where);
}

template <class Launcher>
void launch_flash_backward(const FlashBackwardParameters& parameters, Where where) {
  using Target = typename Launcher::Target;
  const semantics::Call& call = parameters.common.call;
  launch_before_gradients<Launcher>(parameters, where);
  with_element(parameters.common.dtype, [&]<class Element>() {
    with_one_of<64, 128, 256>(semantics::larger(call.qk_dim, call.v_dim), [&]<int dim>() {
      constexpr FlashBackwardConfig config = flash_backward_config(dim);
      Launcher::template launch<FlashKeyGradients<Target, config, Element>>(
          {semantics::divided_up(call.kv_len, config.own) * call.kv_heads * call.batch}, parameters,
          where);
      Launcher::template launch<FlashQueryGradients<Target, config, Element>>(
          {semantics::divided_up(call.q_len, config.own) * call.heads * call.batch}, parameters,
          where);
    });
  });
  launch_other_gradients<Launcher>(parameters, where);
}

}  // namespace rapt::gpu
