// cpu.naive_backward: every weight and every score's gradient stored, then three products of
// matrices. The baseline of backward.
//
//   1  pairs     P = e^(score(Q Kᵀ) − lse),  dS = P ∘ (Z ∘ dO Vᵀ − D),  dX = dS through the cap
//   2  queries   dQ = scale · dX K
//   3  keys      dK = scale · dXᵀ Q,  dV = (Z ∘ P)ᵀ dO, summed over the heads of a group
//   4  sums      dbias, dsinks, dalibi
//
// Z is 1 without dropout. Z P, dX and, where a cap sets them apart and dbias wants it, dS are (rows
// of all sequences and heads, kv_len) f32, in the workspace. Every sum has one order, whatever the
// number of threads.
#include <algorithm>
#include <cmath>
#include <optional>

#include "src/core/call.hpp"
#include "src/core/layout.hpp"
#include "src/core/parallel.hpp"
#include "src/core/text.hpp"
#include "src/cpu/backward_rows.hpp"
#include "src/cpu/kernels.hpp"
#include "src/cpu/naive_rows.hpp"
#include "src/cpu/row_operations.hpp"
#include "src/semantics/score.hpp"

namespace rapt {
namespace {

using semantics::Index;
using semantics::Range;

// Rows of queries, or keys, that are worked on together; and terms that are added one after
// another.
constexpr Index block_size = 16;
constexpr Index terms_per_partial_sum = 32;

// How many rows and matrices there are.
struct Extent {
  Index rows, kv_len;
  bool stores_scores;

  explicit Extent(const Problem& p)
      : rows(p.total_q * p.heads),
        kv_len(p.kv_len),
        stores_scores(p.dbias.present() && p.softcap > 0) {}
  // Floats of the matrices and of what a row has beside them: D and its part in dalibi.
  std::optional<Index> floats() const {
    const auto matrix = checked_product(rows, kv_len);
    return matrix ? checked_product(*matrix + rows, stores_scores ? 3 : 2) : std::nullopt;
  }
};

// Per thread: three blocks of rows, for sums, their rests and partial sums, and two single ones.
Index scratch_floats(const Problem& p) {
  const Index widest = std::max(p.qk_dim, p.v_dim);
  return (3 * block_size + 2) * widest;
}

class NaiveBackward {
 public:
  NaiveBackward(const semantics::Call& call, const semantics::Gradients& gradients,
                const Task& task, std::span<std::byte> workspace)
      : call_(call),
        gradients_(gradients),
        problem_(task.problem),
        executor_(*task.executor),
        threads_(task.device.threads),
        widest_(std::max(call.qk_dim, call.v_dim)),
        rows_(call, gradients, task.problem, reinterpret_cast<float*>(workspace.data())) {
    const Extent extent(task.problem);
    const Index matrix = extent.rows * extent.kv_len;
    auto* memory = reinterpret_cast<float*>(workspace.data());  // it begins with the deltas
    slope_parts_ = memory + extent.rows;
    weights_ = slope_parts_ + extent.rows;
    products_ = weights_ + matrix;
    scores_ = extent.stores_scores ? products_ + matrix : nullptr;
    scratch_ = memory + extent.floats().value();
  }

  template <class Element>
  void run() const {
    for_rows([&](const Rows& rows, float* scratch) {
      with_element_type(problem_.out_dtype,
                        [&](auto type) { store_pairs<Element, decltype(type)>(rows, scratch); });
    });
    for_rows([&](const Rows& rows, float* scratch) { store_queries<Element>(rows, scratch); });
    for_keys([&](const Keys& keys, float* scratch) {
      store_keys<Element>(keys, scratch, products_, call_.scale, call_.q, problem_.dtype,
                          call_.q_stride, call_.qk_dim, gradients_.dk, gradients_.dk_is_f32,
                          gradients_.dk_stride);
      store_keys<Element>(keys, scratch, weights_, 1, gradients_.dout, problem_.out_dtype,
                          gradients_.dout_stride, call_.v_dim, gradients_.dv, gradients_.dv_is_f32,
                          gradients_.dv_stride);
    });
    if (gradients_.dbias) store_bias<Element>();
    if (gradients_.dsinks) rows_.store_sinks(executor_);
    if (gradients_.dalibi) rows_.store_slopes(executor_, slope_parts_, 1, 0);
  }

 private:
  // Consecutive queries of one head, and the keys that some of them see.
  struct Rows {
    semantics::Sequence sequence;
    Index head, kv_head, first, count;
    semantics::KeyRanges keys;
    semantics::DropoutStream dropout;
  };
  // Consecutive stored keys of one kv head.
  struct Keys {
    semantics::Sequence sequence;
    Index kv_head, first, count;
  };

  template <class Function>
  void for_blocks(Index heads, Index longest, Function&& function) const {
    const Index blocks = semantics::divided_up(longest, block_size);
    const Index per_slot = (3 * block_size + 2) * widest_;
    parallel_for_slots(
        executor_, threads_, call_.batch * heads * blocks, [&](Index slot, Index item) {
          function(semantics::sequence(call_, item / blocks / heads), item / blocks % heads,
                   item % blocks * block_size, scratch_ + slot * per_slot);
        });
  }

  template <class Function>
  void for_rows(Function&& function) const {
    for_blocks(call_.heads, call_.q_len,
               [&](const semantics::Sequence& sequence, Index head, Index first, float* scratch) {
                 const Index count = std::min(block_size, sequence.q_len - first);
                 if (count <= 0) return;
                 const Index position = first + sequence.offset;
                 function({sequence, head, semantics::kv_head_of(call_, head), first, count,
                           semantics::visible_to_some(call_.window, position, position + count - 1,
                                                      sequence.kv_len),
                           semantics::dropout_stream(call_.dropout, sequence.index, head)},
                          scratch);
               });
  }

  template <class Function>
  void for_keys(Function&& function) const {
    for_blocks(call_.kv_heads, call_.kv_len,
               [&](const semantics::Sequence& sequence, Index head, Index first, float* scratch) {
                 const Index stored = semantics::stored_keys(call_, sequence);
                 const Index count = std::min(block_size, stored - first);
                 if (count > 0) function({sequence, head, first, count}, scratch);
               });
  }

  template <class Element>
  void read(const void* data, const Index (&stride)[3], semantics::Place place, Index head,
            Index count, float* to) const {
    widen(static_cast<const Element*>(data) + semantics::row_offset(stride, place, head), count,
          to);
  }

  // Rows of (out_is_f32: `sums` + `rests`) · factor.
  template <class Element>
  void write(void* data, bool is_f32, Index at, Index count, const float* sums, const float* rests,
             float factor) const {
    const auto store = [&](auto* to) {
      using Out = std::remove_pointer_t<decltype(to)>;
      for (Index d = 0; d < count; ++d) to[d] = from_float<Out>((sums[d] + rests[d]) * factor);
    };
    if (is_f32)
      store(static_cast<float*>(data) + at);
    else
      store(static_cast<Element*>(data) + at);
  }

  template <class Element, class Out>
  void store_pairs(const Rows& rows, float* scratch) const {
    float* q = scratch;
    float* dout = q + block_size * widest_;
    float* key_row = dout + 2 * block_size * widest_;
    for (Index r = 0; r < rows.count; ++r) {
      const semantics::Place place = semantics::query_place(call_, rows.sequence, rows.first + r);
      read<Element>(call_.q, call_.q_stride, place, rows.head, call_.qk_dim, q + r * call_.qk_dim);
      read<Out>(gradients_.dout, gradients_.dout_stride, place, rows.head, call_.v_dim,
                dout + r * call_.v_dim);
      const Index row = rows_.row_of(rows.sequence, rows.head, rows.first + r);
      for (float* matrix : {weights_, products_, scores_}) {
        if (matrix) std::fill_n(matrix + row * problem_.kv_len, call_.kv_len, 0.0f);
      }
      slope_parts_[row] = 0;
    }
    rows_.store_deltas(rows.sequence, rows.head, {rows.first, rows.first + rows.count});
    std::array<double, block_size> slope_parts = {};
    for (const Range range : {rows.keys.first, rows.keys.window}) {
      for (Index key = range.begin; key < range.end; ++key) {
        const semantics::Place place = semantics::key_place(call_, rows.sequence, key);
        std::array<float, block_size> dots, dout_v;
        read<Element>(call_.k, call_.k_stride, place, rows.kv_head, call_.qk_dim, key_row);
        dots_with_key(q, key_row, rows.count, call_.qk_dim, dots.data());
        read<Element>(call_.v, call_.v_stride, place, rows.kv_head, call_.v_dim, key_row);
        dots_with_key(dout, key_row, rows.count, call_.v_dim, dout_v.data());
        for (Index r = 0; r < rows.count; ++r) {
          const auto at = static_cast<std::size_t>(r);
          store_pair<Element>(rows, rows.first + r, key, dots[at], dout_v[at], slope_parts[at]);
        }
      }
    }
    for (Index r = 0; r < rows.count; ++r)
      slope_parts_[rows_.row_of(rows.sequence, rows.head, rows.first + r)] =
          static_cast<float>(slope_parts[static_cast<std::size_t>(r)]);
  }

  template <class Element>
  void store_pair(const Rows& rows, Index query, Index key, float dot, float dout_v,
                  double& slope_part) const {
    const Index sequence = rows.sequence.index, position = query + rows.sequence.offset;
    if (!semantics::in_window(call_.window, position, key, rows.sequence.kv_len) ||
        !mask_at(call_, sequence, rows.head, query, key))
      return;
    const float slope = call_.alibi ? semantics::slope_of(call_, sequence, rows.head) : 0;
    const float score = semantics::score<float>(
        {call_.scale, call_.softcap, slope}, dot,
        bias_at<Element>(call_, sequence, rows.head, query, key), position, key);
    if (score == minus_infinity) return;
    const semantics::Place place = semantics::query_place(call_, rows.sequence, query);
    const Index row = rows_.row_of(rows.sequence, rows.head, query),
                at = row * problem_.kv_len + key;
    const float weight =
        std::exp(score - call_.lse[semantics::lse_offset(call_, place, rows.head)]);
    const float kept = semantics::keeps(rows.dropout, query, key)
                           ? semantics::kept_scale<float>(call_.dropout)
                           : 0;
    const float of_score = weight * (kept * dout_v - rows_.delta(row));
    weights_[at] = kept * weight;
    products_[at] = of_score * semantics::cap_slope(call_.softcap, call_.scale * dot);
    if (scores_) scores_[at] = of_score;
    slope_part -= double(of_score) * std::abs(double(position - key));
  }

  template <class Element>
  void store_queries(const Rows& rows, float* scratch) const {
    const Index values = rows.count * call_.qk_dim;
    float *sums = scratch, *rests = sums + values, *partial = rests + values;
    float* key_row = scratch + 3 * block_size * widest_;
    std::fill_n(sums, 2 * values, 0.0f);
    const float* products =
        products_ + rows_.row_of(rows.sequence, rows.head, rows.first) * problem_.kv_len;
    const auto next = [&](Index from) {
      return semantics::next_keys(rows.keys, from, terms_per_partial_sum);
    };
    for (Range run = next(0); !semantics::is_empty(run); run = next(run.end)) {
      std::fill_n(partial, values, 0.0f);
      for (Index key = run.begin; key < run.end; ++key) {
        read<Element>(call_.k, call_.k_stride, semantics::key_place(call_, rows.sequence, key),
                      rows.kv_head, call_.qk_dim, key_row);
        add_weighted_value(products + key, problem_.kv_len, key_row, rows.count, call_.qk_dim,
                           partial);
      }
      add_with_rests(partial, values, sums, rests);
    }
    for (Index r = 0; r < rows.count; ++r) {
      const semantics::Place place = semantics::query_place(call_, rows.sequence, rows.first + r);
      write<Element>(gradients_.dq, gradients_.dq_is_f32,
                     semantics::row_offset(gradients_.dq_stride, place, rows.head), call_.qk_dim,
                     sums + r * call_.qk_dim, rests + r * call_.qk_dim, call_.scale);
    }
  }

  // Columns of a matrix times rows of q or dout.
  template <class Element>
  void store_keys(const Keys& keys, float* scratch, const float* matrix, float factor,
                  const void* vectors, DType vector_type, const Index (&vector_stride)[3],
                  Index dims, void* target, bool target_is_f32,
                  const Index (&target_stride)[3]) const {
    const Index used = semantics::clamp(keys.sequence.kv_len - keys.first, 0, keys.count);
    const Index values = keys.count * dims, group = call_.heads / call_.kv_heads;
    float *sums = scratch, *rests = sums + values, *partial = rests + values;
    float* vector = scratch + 3 * block_size * widest_;
    std::fill_n(sums, 2 * values, 0.0f);
    for (Index head = keys.kv_head * group; used > 0 && head < (keys.kv_head + 1) * group; ++head) {
      for (Index begin = 0; begin < keys.sequence.q_len; begin += terms_per_partial_sum) {
        std::fill_n(partial, used * dims, 0.0f);
        const Index end = std::min(begin + terms_per_partial_sum, keys.sequence.q_len);
        for (Index query = begin; query < end; ++query) {
          const semantics::Place place = semantics::query_place(call_, keys.sequence, query);
          with_element_type(vector_type, [&](auto type) {
            read<decltype(type)>(vectors, vector_stride, place, head, dims, vector);
          });
          add_weighted_value(
              matrix + rows_.row_of(keys.sequence, head, query) * problem_.kv_len + keys.first, 1,
              vector, used, dims, partial);
        }
        add_with_rests(partial, used * dims, sums, rests);
      }
    }
    for (Index i = 0; i < keys.count; ++i) {
      const semantics::Place place = semantics::key_place(call_, keys.sequence, keys.first + i);
      write<Element>(target, target_is_f32,
                     semantics::row_offset(target_stride, place, keys.kv_head), dims,
                     sums + i * dims, rests + i * dims, factor);
    }
  }

  // Every element is a sum over what shares it, sequence by sequence, head by head, row by row.
  template <class Element>
  void store_bias() const {
    const Index(&size)[4] = gradients_.dbias_size;
    const auto range = [&](int axis, Index at, Index all) {
      return size[axis] == 1 ? Range{0, all} : Range{at, at + 1};
    };
    parallel_for(executor_, size[0] * size[1] * size[2] * size[3], [&](Index element) {
      const Index k = element % size[3], q = element / size[3] % size[2];
      const Index h = element / size[3] / size[2] % size[1],
                  b = element / size[3] / size[2] / size[1];
      const float* matrix = scores_ ? scores_ : products_;
      double sum = 0;
      const Range sequences = range(0, b, call_.batch), heads = range(1, h, call_.heads);
      for (Index i = sequences.begin; i < sequences.end; ++i) {
        const semantics::Sequence sequence = semantics::sequence(call_, i);
        const Range queries = semantics::within(range(2, q, sequence.q_len), {0, sequence.q_len});
        const Range keys = semantics::within(range(3, k, sequence.kv_len), {0, sequence.kv_len});
        for (Index head = heads.begin; head < heads.end; ++head) {
          for (Index query = queries.begin; query < queries.end; ++query) {
            const float* row = matrix + rows_.row_of(sequence, head, query) * problem_.kv_len;
            for (Index key = keys.begin; key < keys.end; ++key) sum += row[key];
          }
        }
      }
      const Index at = semantics::pair_offset(gradients_.dbias_stride, b, h, q, k);
      const float zero = 0, value = static_cast<float>(sum);
      write<Element>(gradients_.dbias, gradients_.dbias_is_f32, at, 1, &value, &zero, 1);
    });
  }

  const semantics::Call& call_;
  const semantics::Gradients& gradients_;
  const Problem& problem_;
  Executor& executor_;
  const Index threads_, widest_;
  const BackwardRows rows_;
  float *weights_, *products_, *scores_;  // Z P, dX, dS (null: as dX)
  float* slope_parts_;                    // (rows): −Σ dS |p − j|
  float* scratch_;
};

std::optional<std::int64_t> workspace_size(const Problem& p, std::int64_t threads) {
  const auto stored = Extent(p).floats();
  const auto scratch = checked_product(scratch_floats(p), threads);
  std::int64_t floats = 0;
  if (!stored || !scratch || __builtin_add_overflow(*stored, *scratch, &floats))
    return std::nullopt;
  return checked_product(floats, sizeof(float));
}

Support supports(const Problem& p, const Device& device) {
  const auto bytes = workspace_size(p, device.threads);
  const double limit = device.nominal.memory_bytes;  // 0: unknown
  if (bytes && (limit == 0 || double(*bytes) <= limit)) return Support::yes();
  return Support::no(text(
      "it would store ", human_bytes(8.0 * double(p.total_q) * double(p.heads) * double(p.kv_len)),
      " of weights and gradients of scores; this machine has ", human_bytes(limit), " of memory"));
}

std::size_t workspace(const Task& task) {
  return static_cast<std::size_t>(workspace_size(task.problem, task.device.threads).value());
}

// About a tenth of the FMA rate; both matrices are written once and read once or twice.
Estimate estimate(const Task& task) {
  const Problem& p = task.problem;
  const double pairs = p.flops() / (2.0 * (3 * double(p.qk_dim) + 2 * double(p.v_dim)));
  const double blocks = double(p.batch) * double(p.heads) *
                        std::ceil(double(std::max(p.q_len, p.kv_len)) / double(block_size));
  const double busy = std::min(1.0, std::max(1.0, blocks) / task.device.threads);
  return estimate_from(p.flops(), busy * task.device.nominal.f32_flops / 10,
                       p.bytes() + 6 * 4 * pairs, busy * task.device.nominal.read_bandwidth,
                       8e-6 + 2 * blocks * 1e-6 / task.device.threads);
}

std::unique_ptr<const Prepared> prepare(const Task& task) {
  return prepared([task](const semantics::Call& call, const semantics::Gradients& gradients,
                         const Launch& launch) {
    const NaiveBackward naive(call, gradients, task, launch.workspace);
    with_element_type(task.problem.dtype, [&](auto type) { naive.run<decltype(type)>(); });
  });
}

}  // namespace

const Kernel cpu_naive_backward = {
    .name = "cpu.naive_backward",
    .summary = "every weight and score's gradient stored, then products of matrices: the baseline",
    .backend = Backend::cpu,
    .operation = Operation::backward,
    .by_name_only = false,
    .supports = supports,
    .configs = one_empty_config,
    .estimate = estimate,
    .workspace = workspace,
    .prepare = prepare,
};

}  // namespace rapt
