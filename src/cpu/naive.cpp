// cpu.naive: every score stored, three passes. The baseline of every speedup.
//
//   1  scores    S = score(Q Kᵀ), −inf where a query may not attend
//   2  softmax   S → P, row by row, in place, and its dropout; lse
//   3  out       O = P V
//
// S is (rows of all sequences and heads, kv_len) f32, in the workspace.
//
// Simple, not crippled: all threads work, blocks of rows share each loaded key, the loops over the
// head dim vectorise, and keys that no row of a block may see are skipped. What it does not do is
// what the faster kernels are for: it streams the score matrix through memory three times.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "src/core/call.hpp"
#include "src/core/layout.hpp"
#include "src/core/parallel.hpp"
#include "src/core/text.hpp"
#include "src/cpu/dropout.hpp"
#include "src/cpu/kernels.hpp"
#include "src/cpu/naive_rows.hpp"
#include "src/semantics/score.hpp"

namespace rapt {
namespace {

using semantics::Index;
using semantics::Range;

constexpr Index rows_per_block = 16;
// Terms of long rows that are added one after another.
constexpr Index keys_per_partial_sum = 32;
constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float minus_infinity = -infinity;

// Consecutive queries of one head of one sequence, and the keys that some of them see.
struct Block {
  semantics::Sequence sequence;
  Index head, kv_head, first_query, rows;
  semantics::KeyRanges keys;
  float* scores;  // (rows, kv_len)
};

std::span<float> part_of(std::span<float> row, Range keys) {
  return row.subspan(static_cast<std::size_t>(keys.begin),
                     static_cast<std::size_t>(keys.end - keys.begin));
}

class Naive {
 public:
  Naive(const semantics::Call& call, const Task& task, std::span<std::byte> workspace)
      : call_(call),
        executor_(*task.executor),
        threads_(task.device.threads),
        scores_(reinterpret_cast<float*>(workspace.data())),
        scratch_(scores_ + score_count(task.problem).value()) {}

  template <class Element>
  void run() const {
    for_each_block(
        [&](const Block& block, float* scratch) { store_scores<Element>(block, scratch); });
    for_each_block([&](const Block& block, float*) { softmax(block); });
    for_each_block([&](const Block& block, float* scratch) { store_out<Element>(block, scratch); });
  }

  static std::optional<Index> score_count(const Problem& p) {
    const auto rows = checked_product(p.total_q, p.heads);
    return rows ? checked_product(*rows, p.kv_len) : std::nullopt;
  }
  // Per thread: a block of rows (of q, or two of sums), and one key or value.
  static Index scratch_count(Index qk_dim, Index v_dim) {
    return std::max(rows_per_block * qk_dim + qk_dim, 3 * rows_per_block * v_dim + v_dim);
  }

 private:
  template <class Function>
  void for_each_block(Function&& function) const {
    const Index blocks = (call_.q_len + rows_per_block - 1) / rows_per_block;
    const Index per_slot = scratch_count(call_.qk_dim, call_.v_dim);
    parallel_for_slots(
        executor_, threads_, call_.batch * call_.heads * blocks, [&](Index slot, Index item) {
          Block block = {};
          block.sequence = semantics::sequence(call_, item / blocks / call_.heads);
          block.head = item / blocks % call_.heads;
          block.kv_head = semantics::kv_head_of(call_, block.head);
          block.first_query = item % blocks * rows_per_block;
          block.rows = std::min(rows_per_block, block.sequence.q_len - block.first_query);
          if (block.rows <= 0) return;
          const Index first = block.first_query + block.sequence.offset;
          block.keys = semantics::visible_to_some(call_.window, first, first + block.rows - 1,
                                                  block.sequence.kv_len);
          const semantics::Place place =
              semantics::query_place(call_, block.sequence, block.first_query);
          const Index row = place.outer * call_.q_len + place.row;  // over all sequences
          const Index rows = call_.q_starts ? call_.total_q : call_.batch * call_.q_len;
          block.scores = scores_ + (block.head * rows + row) * call_.kv_len;
          function(block, scratch_ + slot * per_slot);
        });
  }

  template <class Element>
  void store_scores(const Block& block, float* scratch) const {
    float* q = scratch;  // (rows, qk_dim)
    for (Index r = 0; r < block.rows; ++r) {
      const auto place = semantics::query_place(call_, block.sequence, block.first_query + r);
      const Index at = semantics::row_offset(call_.q_stride, place, block.head);
      widen(static_cast<const Element*>(call_.q) + at, call_.qk_dim, q + r * call_.qk_dim);
    }
    float* key_scratch = q + rows_per_block * call_.qk_dim;
    const float slope =
        call_.alibi ? semantics::slope_of(call_, block.sequence.index, block.head) : 0;
    const semantics::Scoring<float> scoring = {call_.scale, call_.softcap, slope};
    for (const Range range : {block.keys.first, block.keys.window}) {
      for (Index key = range.begin; key < range.end; ++key) {
        const Index at = semantics::row_offset(
            call_.k_stride, semantics::key_place(call_, block.sequence, key), block.kv_head);
        const float* k =
            as_floats(static_cast<const Element*>(call_.k) + at, call_.qk_dim, key_scratch);
        float dots[rows_per_block];
        dots_with_key(q, k, block.rows, call_.qk_dim, dots);
        for (Index r = 0; r < block.rows; ++r) {
          block.scores[r * call_.kv_len + key] =
              score<Element>(block, scoring, block.first_query + r, key, dots[r]);
        }
      }
    }
  }

  template <class Element>
  float score(const Block& block, const semantics::Scoring<float>& scoring, Index query, Index key,
              float dot) const {
    const Index position = query + block.sequence.offset;
    const Index sequence = block.sequence.index;
    if (!semantics::in_window(call_.window, position, key, block.sequence.kv_len))
      return minus_infinity;
    if (!mask_at(call_, sequence, block.head, query, key)) return minus_infinity;
    return semantics::score(scoring, dot, bias_at<Element>(call_, sequence, block.head, query, key),
                            position, key);
  }

  float sink_of(Index head) const { return call_.sinks ? call_.sinks[head] : minus_infinity; }

  // NaN is never the larger of two, but makes the sum NaN. A score of +inf weighs 1 in the sum,
  // which then tells whether another one is NaN, and NaN in out.
  void softmax(const Block& block) const {
    const float sink = sink_of(block.head);
    const semantics::DropoutStream dropout =
        semantics::dropout_stream(call_.dropout, block.sequence.index, block.head);
    const float kept = semantics::kept_scale<float>(call_.dropout);
    for (Index r = 0; r < block.rows; ++r) {
      const std::span<float> row(block.scores + r * call_.kv_len,
                                 static_cast<std::size_t>(block.sequence.kv_len));
      const std::array<std::span<float>, 2> parts = {part_of(row, block.keys.first),
                                                     part_of(row, block.keys.window)};
      float row_max = std::max(minus_infinity, sink);
      for (const std::span<float> part : parts) {
        for (const float s : part) row_max = std::max(row_max, s);
      }
      const float reference = row_max == minus_infinity ? 0 : row_max;
      const auto weight = [reference](float s) {
        return s == reference ? 1 : std::exp(s - reference);
      };
      double row_sum = weight(sink);
      for (const std::span<float> part : parts) {
        for (float& s : part) {
          s = weight(s);
          row_sum += s;
        }
      }
      const bool sees_nothing = row_sum == 0;
      const double inverse = reference == infinity ? std::nan("") : sees_nothing ? 0 : 1 / row_sum;
      for (const std::span<float> part : parts) {
        for (float& p : part) p *= static_cast<float>(inverse);
      }
      for (const Range keys : {block.keys.first, block.keys.window}) {
        if (dropout.dropped > 0)
          apply_dropout(dropout, block.first_query + r, keys, kept, row.data() + keys.begin);
      }
      if (call_.lse) {
        const auto place = semantics::query_place(call_, block.sequence, block.first_query + r);
        call_.lse[semantics::lse_offset(call_, place, block.head)] =
            sees_nothing ? minus_infinity : reference + static_cast<float>(std::log(row_sum));
      }
    }
  }

  template <class Element>
  void store_out(const Block& block, float* scratch) const {
    const Index values = block.rows * call_.v_dim;
    float* sums = scratch;                                  // (rows, v_dim)
    float* rests = sums + rows_per_block * call_.v_dim;     // what rounding took from them
    float* partial = rests + rows_per_block * call_.v_dim;  // sums of keys_per_partial_sum keys
    float* value_scratch = partial + rows_per_block * call_.v_dim;
    // A sink that makes every row NaN does so without keys, too.
    const float sink = sink_of(block.head);
    std::fill_n(sums, values, sink == minus_infinity ? 0.0f : 0 * sink);
    std::fill_n(rests, values, 0.0f);
    const auto next = [&](Index from) {
      return semantics::next_keys(block.keys, from, keys_per_partial_sum);
    };
    for (Range run = next(0); !semantics::is_empty(run); run = next(run.end)) {
      std::fill_n(partial, values, 0.0f);
      for (Index key = run.begin; key < run.end; ++key) {
        const Index at = semantics::row_offset(
            call_.v_stride, semantics::key_place(call_, block.sequence, key), block.kv_head);
        const float* v =
            as_floats(static_cast<const Element*>(call_.v) + at, call_.v_dim, value_scratch);
        add_weighted_value(block.scores + key, call_.kv_len, v, block.rows, call_.v_dim, partial);
      }
      add_with_rests(partial, values, sums, rests);
    }
    for (Index r = 0; r < block.rows; ++r) {
      const auto place = semantics::query_place(call_, block.sequence, block.first_query + r);
      const Index at = semantics::row_offset(call_.out_stride, place, block.head);
      const float *sum = sums + r * call_.v_dim, *rest = rests + r * call_.v_dim;
      if (call_.out_is_f32)
        store_row(sum, rest, static_cast<float*>(call_.out) + at);
      else
        store_row(sum, rest, static_cast<Element*>(call_.out) + at);
    }
  }

  template <class Out>
  void store_row(const float* sum, const float* rest, Out* out) const {
    for (Index d = 0; d < call_.v_dim; ++d) out[d] = from_float<Out>(sum[d] + rest[d]);
  }

  const semantics::Call& call_;
  Executor& executor_;
  Index threads_;
  float* scores_;
  float* scratch_;
};

std::optional<std::int64_t> workspace_size(const Problem& p, std::int64_t threads) {
  const auto scores = Naive::score_count(p);
  const auto scratch = checked_product(Naive::scratch_count(p.qk_dim, p.v_dim), threads);
  std::int64_t floats = 0;
  if (!scores || !scratch || __builtin_add_overflow(*scores, *scratch, &floats))
    return std::nullopt;
  return checked_product(floats, sizeof(float));
}

Support supports(const Problem& p, const Device& device) {
  const auto bytes = workspace_size(p, device.threads);
  const double limit = device.nominal.memory_bytes;  // 0: unknown
  if (bytes && (limit == 0 || double(*bytes) <= limit)) return Support::yes();
  return Support::no(text("it would store ",
                          human_bytes(4.0 * double(p.total_q) * double(p.heads) * double(p.kv_len)),
                          " of scores; this machine has ", human_bytes(limit), " of memory"));
}

std::size_t workspace(const Task& task) {
  return static_cast<std::size_t>(workspace_size(task.problem, task.device.threads).value());
}

// It reaches about a tenth of the FMA rate; its score matrix crosses memory five times (written,
// read and written again, read by the third pass, each f32). Blocks are all that threads can share,
// and each costs about a microsecond by itself.
Estimate estimate(const Task& task) {
  const Problem& p = task.problem;
  const double pairs = p.flops() / (2.0 * double(p.qk_dim + p.v_dim));
  const double blocks =
      double(p.batch) * double(p.heads) * std::ceil(double(p.q_len) / rows_per_block);
  const double busy = std::min(1.0, blocks / task.device.threads);
  return estimate_from(p.flops(), busy * task.device.nominal.f32_flops / 10,
                       p.bytes() + 5 * 4 * pairs, busy * task.device.nominal.read_bandwidth,
                       5e-6 + blocks * 1e-6 / task.device.threads);
}

std::unique_ptr<const Prepared> prepare(const Task& task) {
  return prepared([task](const semantics::Call& call, const Launch& launch) {
    const Naive naive(call, task, launch.workspace);
    with_element_type(task.problem.dtype, [&](auto type) { naive.run<decltype(type)>(); });
  });
}

}  // namespace

const Kernel cpu_naive = {
    .name = "cpu.naive",
    .summary = "every score stored, three passes: the baseline",
    .backend = Backend::cpu,
    .row_invariant = true,
    .by_name_only = false,
    .supports = supports,
    .configs = one_empty_config,
    .estimate = estimate,
    .workspace = workspace,
    .prepare = prepare,
};

}  // namespace rapt
