// flash_mma_backward: flash_backward's two kernels on tensor cores, for every NVIDIA GPU since
// Ampere, and the emulator. A block owns a tile of keys, or of queries, and streams tiles of the
// other through shared memory, the next one on its way while one is multiplied:
//
//   own K, V;   for each head of the group and tile of queries, Q and dO:
//     Sᵀ = K Qᵀ,  dPᵀ = V dOᵀ  →  Pᵀ and dXᵀ in their registers;  dV += Pᵀ dO;  dK += dXᵀ Q
//   own Q, dO;  for each tile of keys, K and V:
//     S = Q Kᵀ,   dP = dO Vᵀ   →  dX in its registers;            dQ += dX K
//
// What the first products leave in a lane's registers is what the second ones take, rounded to 16
// bits, or split into parts of TF32. Where sums of dk and dv do not fit into registers together,
// keys have two kernels, eight products in all. Under dropout Pᵀ is without the pairs that it
// drops, and dV is scaled for the others when it is stored.
#pragma once

#include "src/gpu/flash_backward.hpp"
#include "src/gpu/flash_mma/mma_b16.hpp"
#include "src/gpu/flash_mma/mma_tf32.hpp"
#include "src/gpu/flash_mma_backward/pairs.hpp"

namespace rapt::gpu::flash_mma_backward {

// The gradients that a kernel makes.
enum class Makes { dq, dk, dv, dk_and_dv };

template <class Target, TileConfig config, class Element>
struct MmaOf {
  using Type = flash_mma::MmaB16<Target, config.products(), Element>;
};
template <class Target, TileConfig config>
struct MmaOf<Target, config, float> {
  using Type = flash_mma::MmaTf32<Target, config.products(), false>;
};

template <class Target, TileConfig config, Makes makes, class Element>
struct FlashMmaBackward {
  using Parameters = FlashBackwardParameters;
  static constexpr bool own_queries = makes == Makes::dq;
  static constexpr bool sums_weights = makes == Makes::dv || makes == Makes::dk_and_dv;
  static constexpr bool sums_of_dots = makes != Makes::dv;
  using Tiles = BlockTiles<Target, config, own_queries, Element>;
  using PairGradientsHere = PairGradientsOfTile<Target, config, own_queries, Element>;
  using Mma = typename MmaOf<Target, config, Element>::Type;
  using Pairs = typename Tiles::Pairs;
  using Sums = typename Tiles::Sums;
  static constexpr int threads = Tiles::threads, blocks = config.blocks;
  static constexpr int shared_bytes = Tiles::shared_bytes;
  static constexpr int shared_limit = most_shared_bytes_with_mma;
  static constexpr int rows = Tiles::rows;
  // Tiles between two times that sums are promoted. What one adds to a sum of f32 is summed apart.
  static constexpr int span =
      sizeof(Element) == 4 ? span_of_sums<float> / 2 : span_of_sums<Element> / config.streamed;

  RAPT_DEVICE static void run(const Parameters& parameters) {
    const BackwardParameters& p = parameters.common;
    const semantics::Call& call = p.call;
    const Index length = own_queries ? call.q_len : call.kv_len;
    const Index heads = own_queries ? call.heads : call.kv_heads;
    const Index tiles = semantics::divided_up(length, Tiles::own);
    const Index block = Target::block_x(), tile = block % tiles, head = block / tiles % heads;
    const semantics::Sequence sequence = semantics::sequence(call, block / tiles / heads);
    // Under a causal mask the last queries take longest, and the first keys: these come first.
    const Index first = (own_queries ? tiles - 1 - tile : tile) * Tiles::own;
    const Index end = own_queries ? sequence.q_len : semantics::stored_keys(call, sequence);
    if (first >= end) return;
    Results results;
    stream(p, sequence, head, static_cast<int>(first), results);
    store(p, sequence, head, first, end, results);
  }

 private:
  struct Results {
    Sums weights = {}, of_dots = {};  // Σ P · dout over pairs that are kept; Σ dX · q, or Σ dX · k
    CompensatedSum slope_parts[rows] = {};
  };

  // Where a tile of streamed rows is.
  struct Step {
    Index head;
    int first;
    Index number;  // of a tile of keys
    bool exists;
  };
  // All of them, one after another: tiles of keys that some of the queries see, or, of each head of
  // the group, tiles of queries that see some of the keys.
  struct Steps {
    semantics::KeyTiles keys;
    semantics::Range queries;
    Index first_head, end_head;

    RAPT_DEVICE Steps(const semantics::Call& call, const semantics::Sequence& sequence, Index head,
                      int first) {
      if constexpr (own_queries) {
        const Index last = semantics::smaller(first + Tiles::own, sequence.q_len) - 1;
        keys = semantics::key_tiles(
            semantics::visible_to_some(call.window, first + sequence.offset, last + sequence.offset,
                                       sequence.kv_len),
            Tiles::streamed);
        first_head = head;
      } else {
        const Index end = semantics::smaller(first + Tiles::own, sequence.kv_len);
        queries = {0, 0};
        if (first < end)
          queries = semantics::queries_of_keys(call.window, first, end - 1, sequence.q_len,
                                               sequence.offset);
        queries.begin = queries.begin / Tiles::streamed * Tiles::streamed;
        const Index group = call.heads / call.kv_heads;
        first_head = head * group;
        end_head = first_head + group;
      }
    }

    RAPT_DEVICE Step begin() const {
      if constexpr (own_queries) return of_keys(0);
      return {first_head, static_cast<int>(queries.begin), 0, !semantics::is_empty(queries)};
    }
    RAPT_DEVICE Step after(const Step& step) const {
      if constexpr (own_queries) return of_keys(step.number + 1);
      Step next = step;
      next.first += Tiles::streamed;
      if (next.first >= queries.end) {
        next.first = static_cast<int>(queries.begin);
        ++next.head;
        next.exists = next.head < end_head;
      }
      return next;
    }

   private:
    RAPT_DEVICE Step of_keys(Index number) const {
      return {first_head, static_cast<int>(keys.first_key(number)), number, number < keys.count};
    }
  };

  RAPT_DEVICE static void load_own(const BackwardParameters& p, const semantics::Sequence& sequence,
                                   Index head, int first) {
    if constexpr (own_queries)
      Tiles::load_queries(p, sequence, head, first, Tiles::own_tile(0));
    else
      Tiles::load_keys(p, sequence, head, first, Tiles::own_tile(0));
  }
  RAPT_DEVICE static void load_streamed(const BackwardParameters& p,
                                        const semantics::Sequence& sequence, const Step& step,
                                        int stage) {
    const uint32_t to = Tiles::streamed_tile(stage, 0);
    if constexpr (own_queries)
      Tiles::load_keys(p, sequence, semantics::kv_head_of(p.call, step.head), step.first, to);
    else
      Tiles::load_queries(p, sequence, step.head, step.first, to);
  }
  // Of the streamed query with the thread's number.
  RAPT_DEVICE static RowNumbers streamed_numbers(const BackwardParameters& p,
                                                 const semantics::Sequence& sequence,
                                                 const Step& step) {
    if (own_queries || Target::thread() >= Tiles::streamed) return {0, 0, 0};
    return Tiles::row_numbers(p, sequence, step.head, step.first + Target::thread());
  }
  RAPT_DEVICE static void store_numbers(int stage, const RowNumbers& numbers) {
    if constexpr (!own_queries) Tiles::store_numbers(stage, numbers);
  }

  // All streamed tiles past the owned one.
  RAPT_DEVICE static void stream(const BackwardParameters& p, const semantics::Sequence& sequence,
                                 Index head, int first, Results& results) {
    const Steps steps(p.call, sequence, head, first);
    const typename Tiles::WarpSees sees = Tiles::warp_sees(p.call, sequence, first);
    RowNumbers own_numbers[rows];
    if constexpr (own_queries) {
      RAPT_UNROLL
      for (int i = 0; i < rows; ++i)
        own_numbers[i] = Tiles::row_numbers(p, sequence, head, first + Tiles::own_row(i));
    }
    PromotedSums<Target, rows, Sums::columns> promoted_weights, promoted_of_dots;
    const float same_max[rows] = {};  // nothing is relative to a row max

    Step step = steps.begin();
    if (!step.exists) return;
    load_own(p, sequence, head, first);
    load_streamed(p, sequence, step, 0);
    Target::cp_async_commit();
    store_numbers(0, streamed_numbers(p, sequence, step));
    int stage = 0, tiles = 0;
    RAPT_NO_UNROLL
    while (step.exists) {
      const Step next = steps.after(step);
      RowNumbers next_numbers = {0, 0, 0};
      if (config.stages == 2 && next.exists) {
        load_streamed(p, sequence, next, stage ^ 1);
        next_numbers = streamed_numbers(p, sequence, next);
      }
      Target::cp_async_commit();
      if constexpr (config.stages == 2)
        Target::cp_async_wait_previous();
      else
        Target::cp_async_wait_all();
      Target::block_barrier();  // the tile is there
      if (sees.some_of(step.first)) {
        const PairTile tile = {step.head, first, step.first, sees.all_of(step.first)};
        multiply(p, in_few_registers(p.call, sequence), tile, stage, own_numbers, results);
      }
      if (config.stages == 2 && next.exists) store_numbers(stage ^ 1, next_numbers);
      Target::block_barrier();  // the tile is used
      if constexpr (config.stages == 2) {
        stage ^= 1;
      } else if (next.exists) {
        load_streamed(p, sequence, next, 0);
        store_numbers(0, streamed_numbers(p, sequence, next));
      }
      step = next;
      if (++tiles % span != 0) continue;
      if constexpr (sums_weights) promoted_weights.promote(same_max, results.weights.at);
      if constexpr (sums_of_dots) promoted_of_dots.promote(same_max, results.of_dots.at);
    }
    if constexpr (sums_weights) promoted_weights.join_out(same_max, results.weights.at);
    if constexpr (sums_of_dots) promoted_of_dots.join_out(same_max, results.of_dots.at);
  }

  // Worked out anew where wide sums leave no registers for it.
  RAPT_DEVICE static semantics::Sequence in_few_registers(const semantics::Call& call,
                                                          const semantics::Sequence& sequence) {
    if constexpr (config.dim > 128)
      return semantics::sequence(call, Target::unknown(static_cast<int>(sequence.index)));
    else
      return sequence;
  }

  RAPT_DEVICE static void multiply(const BackwardParameters& p, const semantics::Sequence& sequence,
                                   const PairTile& tile, int stage,
                                   const RowNumbers (&own_numbers)[rows], Results& results) {
    Pairs dots, dout_v = {};
    Mma::score(Tiles::own_of_warp(0), Tiles::streamed_tile(stage, 0), dots);
    if constexpr (sums_of_dots)
      Mma::score(Tiles::own_of_warp(1), Tiles::streamed_tile(stage, 1), dout_v);
    RowNumbers streamed_numbers[Tiles::columns] = {};
    if constexpr (!own_queries) {
      RAPT_UNROLL
      for (int j = 0; j < Tiles::columns; ++j)
        streamed_numbers[j] = Tiles::load_numbers(stage, Tiles::streamed_row(j));
    }
    PairGradientsHere::apply(
        p, sequence, tile,
        [&](int i, int j) { return own_queries ? own_numbers[i] : streamed_numbers[j]; }, dots,
        dout_v, results.slope_parts);
    if constexpr (sums_weights) add_product(dots, Tiles::streamed_tile(stage, 1), results.weights);
    if constexpr (sums_of_dots)
      add_product(dout_v, Tiles::streamed_tile(stage, 0), results.of_dots);
  }

  // sums += factors · a streamed tile.
  RAPT_DEVICE static void add_product(Pairs& factors, uint32_t tile, Sums& sums) {
    float ones[rows];
    RAPT_UNROLL
    for (int i = 0; i < rows; ++i) ones[i] = 1;
    Mma::accumulate(factors, ones, tile, sums);
  }

  RAPT_DEVICE static void store(const BackwardParameters& p, const semantics::Sequence& sequence,
                                Index head, Index first, Index end, const Results& results) {
    const semantics::Call& call = p.call;
    const semantics::Gradients& g = p.gradients;
    if constexpr (own_queries) {
      const semantics::Place place = semantics::query_place(call, sequence, first);
      Tiles::store(g.dq, g.dq_is_f32, g.dq_stride, place, head, call.qk_dim, p.aligned, call.scale,
                   end - first, end - first, results.of_dots);
      if (config.score_mod && g.dalibi)
        store_slope_parts(p, sequence, head, first, results.slope_parts);
    } else {
      const semantics::Place place = semantics::unpaged_key_place(call, sequence, first);
      const Index used = sequence.kv_len - first, stored = end - first;
      if constexpr (sums_of_dots)
        Tiles::store(g.dk, g.dk_is_f32, g.dk_stride, place, head, call.qk_dim, p.aligned,
                     call.scale, used, stored, results.of_dots);
      if constexpr (sums_weights)
        Tiles::store(g.dv, g.dv_is_f32, g.dv_stride, place, head, call.v_dim, p.aligned,
                     call.dropout.seed ? semantics::kept_scale<float>(call.dropout) : 1, used,
                     stored, results.weights);
    }
  }

  RAPT_DEVICE static void store_slope_parts(const BackwardParameters& p,
                                            const semantics::Sequence& sequence, Index head,
                                            Index first, const CompensatedSum (&parts)[rows]) {
    RAPT_UNROLL
    for (int i = 0; i < rows; ++i) {
      const float part = sum_over<Target, 4>(parts[i].total());
      const Index query = first + Tiles::own_row(i);
      if (query < sequence.q_len && Target::lane() % 4 == 0)
        p.slope_parts[matrix_row(p.call, sequence, query, head)] = part;
    }
  }
};

}  // namespace rapt::gpu::flash_mma_backward
