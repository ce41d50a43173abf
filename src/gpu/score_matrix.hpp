// The score matrix in global memory, for kernels that store it, and softmax on its rows.
//
// Three kernels work on it in turn, for a chunk of the keys at a time:
//
//   scores    dot products (slices, rows, chunk), each slice over a part of the head dim
//   softmax   slice 0 becomes weights (rows, chunk), after dropout; each row's state and rescale
//             factor
//   out       sums = sums · rescale + weights · V; the last chunk divides and writes out
//
// A chunk of all keys is the textbook way. Smaller chunks make it online softmax, in memory that
// does not grow with the number of keys. Slices give the scores of few rows to many blocks.
#pragma once

#include "src/gpu/block_reductions.hpp"
#include "src/gpu/divisor.hpp"
#include "src/gpu/launch.hpp"
#include "src/gpu/long_sums.hpp"
#include "src/gpu/softmax.hpp"

namespace rapt::gpu {

inline constexpr Index matrix_access = 4;  // floats that are read at once

struct ScoreMatrix {
  semantics::Call call;
  DType dtype;
  bool aligned;             // rows of all tensors start at multiples of 16 bytes
  bool plain;               // see known()
  Divisor heads, group;     // query heads, and those of a kv head
  Divisor q_len;            // call.q_len, or 1
  Index rows;               // queries of all sequences times heads
  Index first_key, chunk;   // this pass's keys; a multiple of matrix_access a pass
  Index slices, slice_dim;  // parts of the head dim
  float* scores;            // (slices, rows, chunk)
  float* states;            // (4, rows): row max, sum, its compensation, rescale
  float* sums;  // (2, rows, v_dim) of earlier chunks, with compensations; null: one chunk
  bool last;    // chunk
};

// Most problems are plain: rows of whole accesses, dense tensors of equal sequences, one chunk,
// one range of keys, and scores that are scaled dot products. A kernel of its own for these has a
// third to three quarters of the code, and where a block has little to do, most of its time goes
// into reading code.
template <bool plain>
RAPT_DEVICE ScoreMatrix known(const ScoreMatrix& matrix) {
  ScoreMatrix m = matrix;
  if constexpr (plain) {
    m.call.q_starts = m.call.kv_starts = m.call.kv_lengths = m.call.page_table = nullptr;
    m.call.bias = nullptr;
    m.call.mask = nullptr;
    m.call.alibi = nullptr;
    m.call.softcap = 0;
    m.call.dropout.seed = nullptr;
    m.call.window.first_keys = 0;
    m.first_key = 0;
    m.last = true;
  }
  return m;
}

// The matrix's row of a query and head.
RAPT_DEVICE Index matrix_row(const semantics::Call& call, const semantics::Sequence& sequence,
                             Index query, Index head) {
  const Index first = call.q_starts ? sequence.q_begin : sequence.index * call.q_len;
  return (first + query) * call.heads + head;
}

// What divides the row's sums in the end.
RAPT_DEVICE float sum_of_weights(const ScoreMatrix& m, Index row) {
  return m.states[m.rows + row] + m.states[2 * m.rows + row];
}

// Keys cut to the chunk's, and counted from its first.
RAPT_DEVICE semantics::Range within_chunk(const ScoreMatrix& m, semantics::Range keys) {
  const Index begin = semantics::clamp(keys.begin - m.first_key, 0, m.chunk);
  return {begin, semantics::larger(begin, semantics::clamp(keys.end - m.first_key, 0, m.chunk))};
}
RAPT_DEVICE semantics::KeyRanges within_chunk(const ScoreMatrix& m,
                                              const semantics::KeyRanges& keys) {
  if (keys.first.end == 0) return {{0, 0}, within_chunk(m, keys.window)};  // known where plain
  return {within_chunk(m, keys.first), within_chunk(m, keys.window)};
}

// One block a row. Threads stand `groups` deep over the keys: each group sums some of the slices.
template <class Target, bool plain, class Element>
struct MatrixSoftmax {
  using Parameters = ScoreMatrix;
  static constexpr bool follows = true;
  static constexpr int threads = 256, blocks = 4, most_groups = 16;
  static constexpr int shared_bytes = threads * 4;
  static constexpr bool most_shared_memory = true;

  RAPT_DEVICE static void run(const Parameters& parameters) {
    Target::wait_for_previous();
    const ScoreMatrix m = known<plain>(parameters);
    const semantics::Call& call = m.call;
    const int queries = m.heads.quotient(Target::block_x());
    const int head = m.heads.remainder(Target::block_x()), query = m.q_len.remainder(queries);
    const semantics::Sequence sequence = semantics::sequence(call, m.q_len.quotient(queries));
    if (query >= sequence.q_len) return;
    const Index position = query + sequence.offset, row = matrix_row(call, sequence, query, head);
    const semantics::KeyRanges keys =
        within_chunk(m, semantics::visible_keys(call.window, position, sequence.kv_len));
    const semantics::Range seen = semantics::span_of(keys);
    const Index padded = semantics::rounded_up(
        semantics::clamp(sequence.kv_len - m.first_key, 0, m.chunk), matrix_access);
    RowState old = first_state(call, head);
    CompensatedSum sum = {old.sum, 0};
    if (m.first_key > 0) {
      old.row_max = m.states[row];
      sum = {m.states[m.rows + row], m.states[2 * m.rows + row]};
    }
    const int groups = groups_for(m.slices, seen.end - seen.begin);
    const int keys_at_once = threads / groups;
    const int group = Target::thread() / keys_at_once, lane = Target::thread() % keys_at_once;
    float* scores = m.scores + row * m.chunk;

    // Exponents into slice 0, unless each thread has one alone, and their largest.
    const bool one_each = seen.end - seen.begin <= keys_at_once;
    float largest = minus_infinity, exponent = minus_infinity;
    for (Index first = seen.begin; first < seen.end; first += keys_at_once) {
      const Index key = first + lane;
      float dot = 0;
      if (semantics::holds(keys, key)) {
        RAPT_UNROLL_BY_4
        for (Index slice = group; slice < m.slices; slice += groups)
          dot += scores[slice * m.rows * m.chunk + key];
      }
      if (groups > 1) dot = sum_of_groups(dot, keys_at_once, groups);
      if (group > 0 || key >= seen.end) continue;
      exponent = !semantics::holds(keys, key) ? minus_infinity
                 : has_score_mod(call)
                     ? scored_exponent<Target, Element>(call, sequence.index, head, query, position,
                                                        m.first_key + key, dot)
                     : Target::product(dot, call.scale * log2_e);
      if (!one_each) scores[key] = exponent;
      largest = exponent > largest ? exponent : largest;
    }
    largest = largest_of_block<Target, threads>(largest);

    // The same threads read what they wrote.
    const float new_max = largest > old.row_max ? largest : old.row_max;
    const float base = finite_max(new_max);
    const float rescale = rescale_factor<Target>(old.row_max, new_max);
    CompensatedSum weights = {0, 0};
    const semantics::DropoutStream dropout =
        semantics::dropout_stream(call.dropout, sequence.index, head);
    const float kept_scale =
        dropout.dropped == 0 ? 1.0f : semantics::kept_scale<float>(call.dropout);
    if (group == 0) {
      for (Index key = seen.begin + lane; key < seen.end; key += keys_at_once) {
        const float weight = Target::exp2((one_each ? exponent : scores[key]) - base);
        scores[key] = dropout.dropped == 0                                  ? weight
                      : semantics::keeps(dropout, query, m.first_key + key) ? weight * kept_scale
                                                                            : 0.0f;
        weights.add(weight);
      }
    }
    for (Index key = Target::thread(); key < seen.begin; key += threads) scores[key] = 0;
    for (Index key = seen.end + Target::thread(); key < padded; key += threads) scores[key] = 0;
    sum.scale(rescale);
    sum.add(sum_of_block<Target, threads>(weights.total()));
    if (Target::thread() > 0) return;
    m.states[row] = new_max;
    m.states[m.rows + row] = sum.sum;
    m.states[2 * m.rows + row] = sum.compensation;
    m.states[3 * m.rows + row] = rescale;
    if (m.last && call.lse) {
      const semantics::Place place = semantics::query_place(call, sequence, query);
      call.lse[semantics::lse_offset(call, place, head)] =
          natural_log_sum<Target>({new_max, sum.total()});
    }
  }

 private:
  // As many as there is work for beside the keys.
  RAPT_DEVICE static int groups_for(Index slices, Index keys) {
    int groups = 1;
    while (2 * groups <= most_groups && 2 * groups <= slices && threads / (2 * groups) >= keys)
      groups *= 2;
    return groups;
  }
  RAPT_DEVICE static float sum_of_groups(float value, int keys_at_once, int groups) {
    const auto memory = Target::template shared<float>(0, threads);
    Target::block_barrier();
    memory.store(Target::thread(), value);
    Target::block_barrier();
    float sum = 0;
    for (int group = 0; group < groups; ++group)
      sum += memory.load(group * keys_at_once + Target::thread() % keys_at_once);
    return sum;
  }
};

template <class Launcher, bool plain, class Element>
void launch_matrix_softmax(const ScoreMatrix& matrix, Where where) {
  const semantics::Call& call = matrix.call;
  Launcher::template launch<MatrixSoftmax<typename Launcher::Target, plain, Element>>(
      {call.batch * call.q_len * call.heads}, matrix, where);
}

}  // namespace rapt::gpu
