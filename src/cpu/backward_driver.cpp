// Gradients without a score matrix. Scores are made anew, tile by tile.
//
//   1  rows    D = Σ dout · out − dlse
//   2  keys    for each kv head, chunk of keys, head of the group and tile of queries: five
//              products (backward_engine.hpp). A chunk's packed keys and its sums of dK and dV stay
//              in the cache; dQ is added up in f32 in the workspace, one copy for each span of
//              chunks.
//   3  rows    dQ: the spans' sums, in order
//   4  sums    dbias (its tiles are made anew), dsinks, dalibi
//
//        keys   ├─ chunk ─┼─ chunk ─┼─ chunk ─┼─ chunk ─┤
//               ├────── span 0 ─────┼────── span 1 ─────┤     a piece of work: sequence, kv head,
//               span
//   queries ┬
//           │   dQ of span 0        dQ of span 1              dQ = their sum
//           ┴
//
// Spans give the threads of one long head something to share. Their number and every sum's order
// follow from the problem alone, so that bits do not depend on the number of threads.
#include "src/cpu/backward_driver.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "src/core/call.hpp"
#include "src/core/layout.hpp"
#include "src/core/parallel.hpp"
#include "src/core/text.hpp"
#include "src/cpu/backward_rows.hpp"
#include "src/cpu/dropout.hpp"
#include "src/cpu/row_operations.hpp"

namespace rapt {
namespace {

using semantics::Index;
using semantics::KeyRanges;
using semantics::Range;

constexpr Index wanted_pieces = 16;  // of work, that many threads find enough of
constexpr Index rows_per_block = 64;

// Everything that the plan knows: how the work is cut, and where in the workspace what lies.
struct BackwardShape {
  Index chunk_keys, spans;
  Index qk_stride, v_stride;  // of rows of sums
  Index rows;                 // of all sequences and heads
  // In floats.
  Index deltas, slope_parts, dq;  // (rows); (spans, rows); (spans, rows, qk_stride)
  Index slots, slot_floats;
  // In floats, of a slot.
  Index k_columns, k_values, v_columns;  // of a chunk's tiles
  Index k_columns_tile, k_values_tile, v_columns_tile;
  Index dk, dv;  // of a chunk
  Index q_rows, q_factors, dout_rows, dout_factors;
  Index scratch, lse, row_deltas;
  Index key_rows;   // of a tile
  Index unseen;     // a row of zeros
  Index bias_sums;  // doubles

  BackwardShape(const Problem& p, const BackwardEngine& backward) {
    const Engine& engine = *backward.operands;
    const Index tile_queries = backward.tile_queries, tile_keys = backward.tile_keys;
    const Index dims = std::max(p.qk_dim, p.v_dim);
    const Index chunk_tiles = dims <= 96 ? backward.chunk_tiles : backward.chunk_tiles / 2;
    chunk_keys = chunk_tiles * tile_keys;
    const Index chunks = semantics::divided_up(std::max<Index>(p.kv_len, 1), chunk_keys);
    const Index heads = std::max<Index>(p.batch * p.kv_heads, 1);
    spans = p.batch_invariant
                ? 1
                : std::clamp<Index>(semantics::divided_up(wanted_pieces, heads), 1, chunks);
    qk_stride = semantics::rounded_up(p.qk_dim, engine.panel);
    v_stride = semantics::rounded_up(p.v_dim, engine.panel);
    rows = p.total_q * p.heads;

    Index end = 0;
    const auto take = [&](Index& at, Index floats) {
      at = end;
      end += semantics::rounded_up(floats, 16);
    };
    const auto floats_of = [](Index bytes) {
      return semantics::rounded_up(semantics::divided_up(bytes, Index{sizeof(float)}), 16);
    };
    take(deltas, rows);
    take(slope_parts, p.dalibi ? spans * rows : 0);
    take(dq, spans * rows * qk_stride);
    slots = end;

    end = 0;
    k_columns_tile = floats_of(engine.keys_bytes(tile_keys, p.qk_dim));
    k_values_tile = floats_of(engine.values_bytes(tile_keys, p.qk_dim));
    v_columns_tile = floats_of(engine.keys_bytes(tile_keys, p.v_dim));
    take(k_columns, chunk_tiles * k_columns_tile);
    take(k_values, chunk_tiles * k_values_tile);
    take(v_columns, chunk_tiles * v_columns_tile);
    take(dk, chunk_keys * qk_stride);
    take(dv, chunk_keys * v_stride);
    take(q_rows, floats_of(engine.queries_bytes(tile_queries, p.qk_dim)));
    take(q_factors, floats_of(backward.factors_bytes(p.qk_dim)));
    take(dout_rows, floats_of(engine.queries_bytes(tile_queries, p.v_dim)));
    take(dout_factors, floats_of(backward.factors_bytes(p.v_dim)));
    take(scratch, floats_of(backward.scratch_bytes));
    take(lse, tile_queries);
    take(row_deltas, tile_queries);
    take(key_rows, tile_keys * std::max(qk_stride, v_stride));
    take(unseen, dims);
    take(bias_sums, p.dbias.present() ? 2 * tile_queries * tile_keys : 0);
    slot_floats = end;
  }

  // Bytes, or nothing where that overflows: sizes are bounded by validate(), products are not.
  static std::optional<std::size_t> bytes(const Problem& p, const BackwardEngine& backward,
                                          Index threads) {
    const double floats =
        double(p.total_q) * double(p.heads) * double(p.qk_dim + 64) * double(wanted_pieces + 2) +
        1e7 * double(p.qk_dim + p.v_dim);
    if (floats > 1e15) return std::nullopt;
    const BackwardShape shape(p, backward);
    return static_cast<std::size_t>(shape.slots + threads * shape.slot_floats) * sizeof(float);
  }
};

class FlashBackward {
 public:
  FlashBackward(const semantics::Call& call, const semantics::Gradients& gradients,
                const Task& task, const BackwardEngine& engine, const BackwardShape& shape,
                std::span<std::byte> workspace)
      : call_(call),
        gradients_(gradients),
        problem_(task.problem),
        executor_(*task.executor),
        threads_(task.device.threads),
        engine_(engine),
        shape_(shape),
        memory_(reinterpret_cast<float*>(workspace.data())),
        rows_(call, gradients, task.problem, memory_ + shape.deltas),
        scoring_(has_scoring(call)),
        group_(call.heads / call.kv_heads) {}

  void run() const {
    for_rows([&](const semantics::Sequence& sequence, Index head, Range queries, float*) {
      rows_.store_deltas(sequence, head, queries);
    });
    const Index pieces = call_.batch * call_.kv_heads * shape_.spans;
    parallel_for_slots(executor_, threads_, pieces, [&](Index slot, Index item) {
      // The first keys first: under a causal mask most queries see them.
      const Index span = item / (call_.batch * call_.kv_heads);
      const Index head = item % (call_.batch * call_.kv_heads);
      start_work(slot);
      add_span(semantics::sequence(call_, head / call_.kv_heads), head % call_.kv_heads, span,
               slot_memory(slot));
      engine_.operands->leave();
    });
    for_rows([&](const semantics::Sequence& sequence, Index head, Range queries, float* memory) {
      store_dq(sequence, head, queries, memory);
    });
    if (gradients_.dbias) store_bias();
    if (gradients_.dsinks) rows_.store_sinks(executor_);
    if (gradients_.dalibi)
      rows_.store_slopes(executor_, memory_ + shape_.slope_parts, shape_.spans, shape_.rows);
  }

 private:
  // A tile of queries of one head, packed.
  struct Queries {
    semantics::Sequence sequence;
    Index head, first, rows;
    KeyRanges keys;  // that some of them see
    semantics::DropoutStream dropout;
    float* slope_parts;  // (rows); null: nobody asks
    double* bias_sums;   // (queries or 1, keys or 1) of a tile; null: nobody asks
  };
  struct Meeting {
    const FlashBackward& driver;
    const Queries& queries;
    Index tile;  // its first key
  };

  float* slot_memory(Index slot) const {
    return memory_ + shape_.slots + slot * shape_.slot_floats;
  }

  // To be followed by leave().
  void start_work(Index slot) const {
    engine_.operands->enter();
    std::fill_n(slot_memory(slot) + shape_.unseen, std::max(call_.qk_dim, call_.v_dim), 0.0f);
  }

  template <class Function>
  void for_rows(Function&& function) const {
    const Index blocks = semantics::divided_up(call_.q_len, rows_per_block);
    parallel_for_slots(
        executor_, threads_, call_.batch * call_.heads * blocks, [&](Index slot, Index item) {
          const semantics::Sequence sequence =
              semantics::sequence(call_, item / blocks / call_.heads);
          const Index first = item % blocks * rows_per_block;
          const Range queries = {first, std::min(first + rows_per_block, sequence.q_len)};
          if (!semantics::is_empty(queries))
            function(sequence, item / blocks % call_.heads, queries, slot_memory(slot));
        });
  }

  float* dq_row(Index span, Index row) const {
    return memory_ + shape_.dq + (span * shape_.rows + row) * shape_.qk_stride;
  }

  // Of a span's chunks: dk and dv, and what they add to dq.
  void add_span(const semantics::Sequence& sequence, Index kv_head, Index span,
                float* memory) const {
    for (Index head = kv_head * group_; head < (kv_head + 1) * group_; ++head) {
      if (sequence.q_len == 0) break;
      const Index row = rows_.row_of(sequence, head, 0);
      std::fill_n(dq_row(span, row), sequence.q_len * shape_.qk_stride, 0.0f);
      if (gradients_.dalibi) std::fill_n(slope_parts(span, row), sequence.q_len, 0.0f);
    }
    const KeyRanges seen =
        sequence.q_len == 0
            ? KeyRanges{}
            : semantics::visible_to_some(call_.window, sequence.offset,
                                         sequence.offset + sequence.q_len - 1, sequence.kv_len);
    const Index stored = semantics::stored_keys(call_, sequence);
    const Index chunks = semantics::divided_up(stored, shape_.chunk_keys);
    const Index first = chunks * span / shape_.spans, last = chunks * (span + 1) / shape_.spans;
    for (Index chunk = first; chunk < last; ++chunk) {
      const Index begin = chunk * shape_.chunk_keys;
      const Range keys = {begin, std::min(begin + shape_.chunk_keys, stored)};
      const Range used = {begin, semantics::clamp(sequence.kv_len, begin, keys.end)};
      std::fill_n(memory + shape_.dk, shape_.chunk_keys * shape_.qk_stride, 0.0f);
      std::fill_n(memory + shape_.dv, shape_.chunk_keys * shape_.v_stride, 0.0f);
      add_chunk(sequence, kv_head, used, seen, span, memory);
      store_keys(sequence, kv_head, keys, seen, memory);
    }
  }
  float* slope_parts(Index span, Index row) const {
    return memory_ + shape_.slope_parts + span * shape_.rows + row;
  }

  void add_chunk(const semantics::Sequence& sequence, Index kv_head, Range chunk,
                 const KeyRanges& seen, Index span, float* memory) const {
    if (sequence.q_len == 0 || semantics::is_empty(chunk)) return;
    for (Index tile = chunk.begin; tile < chunk.end; tile += engine_.tile_keys)
      pack_keys(sequence, kv_head, tile, tile_in(chunk, tile), seen, tile - chunk.begin, memory);
    for (Index head = kv_head * group_; head < (kv_head + 1) * group_; ++head) {
      for (Index first = 0; first < sequence.q_len; first += engine_.tile_queries) {
        Queries queries = queries_of(sequence, head, first);
        if (!semantics::meet(queries.keys, chunk)) continue;
        pack_queries(queries, memory);
        const Index row = rows_.row_of(sequence, head, first);
        if (gradients_.dalibi) queries.slope_parts = slope_parts(span, row);
        for (Index tile = chunk.begin; tile < chunk.end; tile += engine_.tile_keys) {
          meet(queries, tile, tile_in(chunk, tile), tile - chunk.begin, memory, [&](auto& t) {
            t.dq = dq_row(span, row);
            t.dk = memory + shape_.dk + (tile - chunk.begin) * shape_.qk_stride;
            t.dv = memory + shape_.dv + (tile - chunk.begin) * shape_.v_stride;
          });
        }
      }
    }
  }

  Range tile_in(Range keys, Index tile) const {
    return {tile, std::min(tile + engine_.tile_keys, keys.end)};
  }

  Queries queries_of(const semantics::Sequence& sequence, Index head, Index first) const {
    const Index rows = std::min(engine_.tile_queries, sequence.q_len - first);
    const Index position = first + sequence.offset;
    return {
        sequence,
        head,
        first,
        rows,
        semantics::visible_to_some(call_.window, position, position + rows - 1, sequence.kv_len),
        semantics::dropout_stream(call_.dropout, sequence.index, head),
        nullptr,
        nullptr};
  }

  void pack_queries(const Queries& queries, float* memory) const {
    std::array<const void*, most_backward_queries> q, dout;
    for (Index row = 0; row < queries.rows; ++row) {
      const semantics::Place place =
          semantics::query_place(call_, queries.sequence, queries.first + row);
      const auto at = static_cast<std::size_t>(row);
      q[at] = address(call_.q, problem_.dtype,
                      semantics::row_offset(call_.q_stride, place, queries.head));
      dout[at] = address(gradients_.dout, problem_.out_dtype,
                         semantics::row_offset(gradients_.dout_stride, place, queries.head));
      memory[shape_.lse + row] = call_.lse[semantics::lse_offset(call_, place, queries.head)];
      memory[shape_.row_deltas + row] =
          rows_.delta(rows_.row_of(queries.sequence, queries.head, queries.first + row));
    }
    pack_rows(problem_.dtype, q.data(), queries.rows, call_.qk_dim, memory + shape_.q_rows,
              memory + shape_.q_factors);
    pack_rows(problem_.out_dtype, dout.data(), queries.rows, call_.v_dim, memory + shape_.dout_rows,
              memory + shape_.dout_factors);
  }
  void pack_rows(DType dtype, const void* const* rows, Index count, Index dims, void* by_rows,
                 void* factors) const {
    engine_.operands->pack_queries(dtype, rows, count, dims, by_rows);
    engine_.pack_factors(dtype, rows, count, dims, factors);
  }

  static const void* address(const void* data, DType dtype, Index at) {
    return static_cast<const std::byte*>(data) + at * size_in_bytes(dtype);
  }

  // `tile` is packed as the one at `place` (in keys) of the chunk: from the first to the last key
  // that some query sees. What none sees, between them, counts as zeros: it may be NaN.
  void pack_keys(const semantics::Sequence& sequence, Index kv_head, Index tile, Range keys,
                 const KeyRanges& seen, Index place, float* memory) const {
    Range some = {keys.end, keys.begin};
    for (Range run = semantics::next_keys(seen, keys.begin, engine_.tile_keys);
         !semantics::is_empty(run) && run.begin < keys.end;
         run = semantics::next_keys(seen, run.end, engine_.tile_keys))
      some = {std::min(some.begin, run.begin), std::min(run.end, keys.end)};
    if (semantics::is_empty(some)) return;
    std::array<const void*, most_backward_keys> k, v;
    for (Index key = some.begin; key < some.end; ++key) {
      const auto i = static_cast<std::size_t>(key - tile);
      k[i] = v[i] = memory + shape_.unseen;
      if (!semantics::holds(seen, key)) continue;
      const semantics::Place at = semantics::key_place(call_, sequence, key);
      k[i] =
          address(call_.k, problem_.kv_dtype, semantics::row_offset(call_.k_stride, at, kv_head));
      v[i] =
          address(call_.v, problem_.kv_dtype, semantics::row_offset(call_.v_stride, at, kv_head));
    }
    const Engine& engine = *engine_.operands;
    const Range range = {some.begin - tile, some.end - tile};
    const Index number = place / engine_.tile_keys;
    engine.pack_keys(problem_.kv_dtype, k.data(), range, call_.qk_dim,
                     memory + shape_.k_columns + number * shape_.k_columns_tile);
    engine.pack_values(problem_.kv_dtype, k.data(), range, engine_.tile_keys, call_.qk_dim,
                       memory + shape_.k_values + number * shape_.k_values_tile);
    engine.pack_keys(problem_.kv_dtype, v.data(), range, call_.v_dim,
                     memory + shape_.v_columns + number * shape_.v_columns_tile);
  }

  // A tile of queries against a tile of keys, run by run. finish(t) says where sums go.
  template <class Function>
  void meet(const Queries& queries, Index tile, Range keys, Index place, float* memory,
            Function&& finish) const {
    std::array<Range, most_backward_queries> row_keys;
    Meeting meeting = {*this, queries, tile};
    GradientTile t = {};
    t.rows = queries.rows;
    t.qk_dim = call_.qk_dim;
    t.v_dim = call_.v_dim;
    t.row_keys = row_keys.data();
    t.q_rows = memory + shape_.q_rows;
    t.dout_rows = memory + shape_.dout_rows;
    t.q_factors = memory + shape_.q_factors;
    t.dout_factors = memory + shape_.dout_factors;
    t.k_columns = memory + shape_.k_columns + place / engine_.tile_keys * shape_.k_columns_tile;
    t.k_values = memory + shape_.k_values + place / engine_.tile_keys * shape_.k_values_tile;
    t.v_columns = memory + shape_.v_columns + place / engine_.tile_keys * shape_.v_columns_tile;
    t.lse = memory + shape_.lse;
    t.deltas = memory + shape_.row_deltas;
    t.scale = call_.scale;
    t.softcap = call_.softcap;
    t.scratch = memory + shape_.scratch;
    t.qk_stride = shape_.qk_stride;
    t.v_stride = shape_.v_stride;
    t.score_row = scoring_ ? score_row : nullptr;
    t.drop_row = queries.dropout.dropped > 0 ? drop_row : nullptr;
    t.see_row = queries.slope_parts || queries.bias_sums ? see_row : nullptr;
    t.context = &meeting;
    finish(t);
    for (Range run = semantics::next_keys(queries.keys, keys.begin, engine_.tile_keys);
         !semantics::is_empty(run) && run.begin < keys.end;
         run = semantics::next_keys(queries.keys, run.end, engine_.tile_keys)) {
      t.keys = {run.begin - tile, run.end - tile};
      for (Index row = 0; row < queries.rows; ++row) {
        const Index position = queries.first + row + queries.sequence.offset;
        const Range seen = semantics::within(
            semantics::visible_keys(call_.window, position, queries.sequence.kv_len), run);
        row_keys[static_cast<std::size_t>(row)] = {seen.begin - tile, seen.end - tile};
      }
      engine_.add_tile(t);
    }
  }

  static void score_row(const GradientTile& t, Index row, Range keys, float* dots) {
    const Meeting& meeting = *static_cast<const Meeting*>(t.context);
    const Queries& queries = meeting.queries;
    row_operations().score(
        row_scoring(meeting.driver.call_, meeting.driver.problem_.dtype, queries.sequence,
                    queries.head, queries.first + row, meeting.tile + keys.begin),
        dots, keys.end - keys.begin);
  }

  static void drop_row(const GradientTile& t, Index row, Range keys, float* numbers) {
    const Meeting& meeting = *static_cast<const Meeting*>(t.context);
    const Queries& queries = meeting.queries;
    apply_dropout(queries.dropout, queries.first + row,
                  {meeting.tile + keys.begin, meeting.tile + keys.end},
                  semantics::kept_scale<float>(meeting.driver.call_.dropout), numbers);
  }

  static void see_row(const GradientTile& t, Index row, Range keys, const float* gradients) {
    const Meeting& meeting = *static_cast<const Meeting*>(t.context);
    const Queries& queries = meeting.queries;
    if (queries.slope_parts) {
      const Index position = queries.first + row + queries.sequence.offset;
      double sum = 0;
      for (Index key = keys.begin; key < keys.end; ++key) {
        sum -=
            double(gradients[key - keys.begin]) * std::abs(double(position - meeting.tile - key));
      }
      queries.slope_parts[row] += static_cast<float>(sum);
    }
    if (!queries.bias_sums) return;
    const Index(&size)[4] = meeting.driver.gradients_.dbias_size;
    double* sums = queries.bias_sums + (size[2] == 1 ? 0 : row * meeting.driver.engine_.tile_keys);
    for (Index key = keys.begin; key < keys.end; ++key)
      sums[size[3] == 1 ? 0 : key] += double(gradients[key - keys.begin]);
  }

  void store_row(void* data, bool is_f32, Index at, const float* sums, float factor,
                 Index dims) const {
    const DType dtype = is_f32 ? DType::f32 : problem_.dtype;
    row_operations().store(dtype, sums, factor, dims,
                           static_cast<std::byte*>(data) + at * size_in_bytes(dtype));
  }

  // Engines that take whole panels leave anything in the sums of keys that no query sees.
  void store_keys(const semantics::Sequence& sequence, Index kv_head, Range keys,
                  const KeyRanges& seen, float* memory) const {
    for (Index tile = keys.begin; tile < keys.end; tile += engine_.tile_keys) {
      const Range some = tile_in(keys, tile);
      const Index place = tile - keys.begin;
      const auto store = [&](void* data, bool is_f32, const Index(&data_stride)[3], Index sums,
                             Index stride, float factor, Index dims) {
        const float* rows =
            engine_.key_rows(memory + sums + place * stride, stride, memory + shape_.key_rows);
        for (Index key = some.begin; key < some.end; ++key, rows += stride) {
          const semantics::Place at = semantics::key_place(call_, sequence, key);
          store_row(data, is_f32, semantics::row_offset(data_stride, at, kv_head),
                    semantics::holds(seen, key) ? rows : memory + shape_.unseen, factor, dims);
        }
      };
      store(gradients_.dk, gradients_.dk_is_f32, gradients_.dk_stride, shape_.dk, shape_.qk_stride,
            call_.scale, call_.qk_dim);
      store(gradients_.dv, gradients_.dv_is_f32, gradients_.dv_stride, shape_.dv, shape_.v_stride,
            1, call_.v_dim);
    }
  }

  void store_dq(const semantics::Sequence& sequence, Index head, Range queries,
                float* memory) const {
    float* sums = memory;
    for (Index query = queries.begin; query < queries.end; ++query) {
      const Index row = rows_.row_of(sequence, head, query);
      std::copy_n(dq_row(0, row), call_.qk_dim, sums);
      for (Index span = 1; span < shape_.spans; ++span) {
        const float* more = dq_row(span, row);
        for (Index d = 0; d < call_.qk_dim; ++d) sums[d] += more[d];
      }
      const semantics::Place place = semantics::query_place(call_, sequence, query);
      store_row(gradients_.dq, gradients_.dq_is_f32,
                semantics::row_offset(gradients_.dq_stride, place, head), sums, call_.scale,
                call_.qk_dim);
    }
  }

  // A piece of dbias: one of its sequences and heads, and a tile of queries and keys, or all of
  // them where it is broadcast over those. What shares it is added up in order.
  void store_bias() const {
    const Index(&size)[4] = gradients_.dbias_size;
    const Index query_tiles =
        size[2] == 1 ? 1 : semantics::divided_up(size[2], engine_.tile_queries);
    const Index key_tiles = size[3] == 1 ? 1 : semantics::divided_up(size[3], engine_.tile_keys);
    parallel_for_slots(
        executor_, threads_, size[0] * size[1] * query_tiles * key_tiles,
        [&](Index slot, Index item) {
          const Index key_tile = item % key_tiles, query_tile = item / key_tiles % query_tiles;
          const Index head = item / key_tiles / query_tiles % size[1];
          const Index b = item / key_tiles / query_tiles / size[1];
          const Range queries = {
              size[2] == 1 ? 0 : query_tile * engine_.tile_queries,
              size[2] == 1 ? call_.q_len : (query_tile + 1) * engine_.tile_queries};
          const Range keys = {size[3] == 1 ? 0 : key_tile * engine_.tile_keys,
                              size[3] == 1 ? call_.kv_len : (key_tile + 1) * engine_.tile_keys};
          float* memory = slot_memory(slot);
          auto* sums = reinterpret_cast<double*>(memory + shape_.bias_sums);
          std::fill_n(sums, engine_.tile_queries * engine_.tile_keys, 0.0);
          const Range sequences = size[0] == 1 ? Range{0, call_.batch} : Range{b, b + 1};
          const Range heads = size[1] == 1 ? Range{0, call_.heads} : Range{head, head + 1};
          start_work(slot);
          for (Index i = sequences.begin; i < sequences.end; ++i) {
            for (Index h = heads.begin; h < heads.end; ++h)
              add_bias(semantics::sequence(call_, i), h, queries, keys, sums, memory);
          }
          engine_.operands->leave();
          write_bias(b, head, queries.begin, keys.begin, sums);
        });
  }

  void add_bias(const semantics::Sequence& sequence, Index head, Range queries, Range keys,
                double* sums, float* memory) const {
    const Index q_end = std::min(queries.end, sequence.q_len);
    const Index k_end = std::min(keys.end, sequence.kv_len);
    for (Index tile = keys.begin; tile < k_end; tile += engine_.tile_keys) {
      const Range some = {tile, std::min(tile + engine_.tile_keys, k_end)};
      for (Index first = queries.begin; first < q_end; first += engine_.tile_queries) {
        Queries block = queries_of(sequence, head, first);
        if (!semantics::meet(block.keys, some)) continue;
        pack_keys(sequence, semantics::kv_head_of(call_, head), tile, some, block.keys, 0, memory);
        pack_queries(block, memory);
        block.bias_sums = sums;
        meet(block, tile, some, 0, memory, [](GradientTile&) {});
      }
    }
  }

  void write_bias(Index b, Index head, Index first_query, Index first_key,
                  const double* sums) const {
    const Index(&size)[4] = gradients_.dbias_size;
    const Index rows = std::min(engine_.tile_queries, size[2] - (size[2] == 1 ? 0 : first_query));
    const Index keys = std::min(engine_.tile_keys, size[3] - (size[3] == 1 ? 0 : first_key));
    for (Index row = 0; row < rows; ++row) {
      for (Index key = 0; key < keys; ++key) {
        const auto sum = static_cast<float>(sums[row * engine_.tile_keys + key]);
        store_row(gradients_.dbias, gradients_.dbias_is_f32,
                  semantics::pair_offset(gradients_.dbias_stride, b, head,
                                         size[2] == 1 ? 0 : first_query + row,
                                         size[3] == 1 ? 0 : first_key + key),
                  &sum, 1, 1);
      }
    }
  }

  const semantics::Call& call_;
  const semantics::Gradients& gradients_;
  const Problem& problem_;
  Executor& executor_;
  const Index threads_;
  const BackwardEngine& engine_;
  const BackwardShape& shape_;
  float* memory_;
  const BackwardRows rows_;
  const bool scoring_;
  const Index group_;
};

}  // namespace

Support backward_support(const Problem& p, const Device& device, const BackwardEngine& engine) {
  const auto bytes = BackwardShape::bytes(p, engine, device.threads);
  const double limit = device.nominal.memory_bytes;  // 0: unknown
  if (bytes && (limit == 0 || double(*bytes) <= limit)) return Support::yes();
  return Support::no(text("its sums of dq take ", bytes ? human_bytes(double(*bytes)) : "too much",
                          "; this machine has ", human_bytes(limit), " of memory"));
}

std::size_t backward_workspace(const Task& task, const BackwardEngine& engine) {
  return BackwardShape::bytes(task.problem, engine, task.device.threads).value();
}

Estimate backward_estimate(const Task& task, const BackwardEngine& engine, double flops_per_second,
                           double seconds_per_tile) {
  const Problem& p = task.problem;
  const BackwardShape shape(p, engine);
  const double pieces = double(std::max<Index>(p.batch * p.kv_heads, 1) * shape.spans);
  const double busy = std::min(1.0, pieces / task.device.threads);
  const double tiles = double(p.batch) * double(p.heads) *
                       std::ceil(double(p.q_len) / double(engine.tile_queries)) *
                       std::ceil(double(p.kv_len) / double(shape.chunk_keys));
  return estimate_from(p.flops(), busy * flops_per_second, p.bytes(),
                       busy * task.device.nominal.read_bandwidth,
                       5e-6 + tiles * seconds_per_tile / task.device.threads);
}

std::unique_ptr<const Prepared> prepare_backward(const Task& task, const BackwardEngine& engine) {
  return prepared([task, &engine, shape = BackwardShape(task.problem, engine)](
                      const semantics::Call& call, const semantics::Gradients& gradients,
                      const Launch& launch) {
    FlashBackward(call, gradients, task, engine, shape, launch.workspace).run();
  });
}

}  // namespace rapt
