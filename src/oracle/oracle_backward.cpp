// Backward's oracle as a kernel, `cpu.oracle_backward`: sums of pair_gradients.hpp's pairs in fp64,
// each rounded once. It allocates as it goes, and one thread does all of it.
#include <algorithm>
#include <cmath>

#include "src/core/call.hpp"
#include "src/oracle/pair_gradients.hpp"

namespace rapt {
namespace {

using semantics::Index;

Support supports(const Problem&, const Device&) { return Support::yes(); }

std::size_t workspace(const Task&) { return 0; }

Estimate estimate(const Task& task) {
  return estimate_from(task.problem.flops(), 5e8, task.problem.bytes(),
                       task.device.nominal.read_bandwidth, 1e-6);
}

void write(void* target, DType dtype, Index at, const double* values, Index count) {
  with_element_type(dtype, [&](auto type) {
    auto* elements = static_cast<decltype(type)*>(target) + at;
    for (Index i = 0; i < count; ++i)
      elements[i] = from_float<decltype(type)>(static_cast<float>(values[i]));
  });
}

// What is summed over many sequences, heads or pairs, and written at the end.
struct Shared {
  std::vector<double> dbias, dsinks, dalibi;
};

class OneKvHead {
 public:
  OneKvHead(const BackwardCall& backward, const semantics::Sequence& sequence, Index kv_head)
      : backward_(backward),
        call_(backward.call),
        sequence_(sequence),
        kv_head_(kv_head),
        keys_(gradient_keys(backward, sequence, kv_head)),
        dk_(static_cast<std::size_t>(stored() * call_.qk_dim)),
        dv_(static_cast<std::size_t>(stored() * call_.v_dim)) {}

  void add(const GradientRow& row, Shared& shared) {
    std::vector<double> dq(static_cast<std::size_t>(call_.qk_dim));
    double dalibi = 0;
    for (const GradientKey& key : keys_) {
      const PairGradient pair = pair_gradient(backward_, row, key);
      if (!pair.visible) continue;
      const double of_product = pair.of_dot * double(call_.scale);
      for (std::size_t d = 0; d < dq.size(); ++d) {
        dq[d] += of_product * key.k[d];
        dk_[at(key, call_.qk_dim) + d] += of_product * row.q[d];
      }
      for (std::size_t d = 0; d < key.v.size() && pair.kept != 0; ++d)
        dv_[at(key, call_.v_dim) + d] += pair.kept * pair.weight * row.dout[d];
      dalibi -= pair.of_score * std::abs(double(row.position() - key.key));
      if (backward_.gradients.dbias) shared.dbias[bias_element(row, key)] += pair.of_score;
    }
    const semantics::Place place = semantics::query_place(call_, sequence_, row.row.query);
    write(backward_.gradients.dq, backward_.problem.dq_dtype,
          semantics::row_offset(backward_.gradients.dq_stride, place, row.row.head), dq.data(),
          call_.qk_dim);
    const auto head = static_cast<std::size_t>(row.row.head);
    if (backward_.gradients.dsinks) shared.dsinks[head] += sink_gradient(backward_, row);
    if (backward_.gradients.dalibi) shared.dalibi[slope_element(row)] += dalibi;
  }

  void write_keys() const {
    for (Index key = 0; key < stored(); ++key) {
      const semantics::Place place = semantics::key_place(call_, sequence_, key);
      const semantics::Gradients& g = backward_.gradients;
      write(g.dk, backward_.problem.dk_dtype, semantics::row_offset(g.dk_stride, place, kv_head_),
            dk_.data() + key * call_.qk_dim, call_.qk_dim);
      write(g.dv, backward_.problem.dv_dtype, semantics::row_offset(g.dv_stride, place, kv_head_),
            dv_.data() + key * call_.v_dim, call_.v_dim);
    }
  }

 private:
  Index stored() const { return semantics::stored_keys(call_, sequence_); }
  static std::size_t at(const GradientKey& key, Index dims) {
    return static_cast<std::size_t>(key.key * dims);
  }
  std::size_t bias_element(const GradientRow& row, const GradientKey& key) const {
    const Index(&size)[4] = backward_.gradients.dbias_size;
    const Index coordinates[4] = {sequence_.index, row.row.head, row.row.query, key.key};
    Index element = 0;
    for (int axis = 0; axis < 4; ++axis)
      element = element * size[axis] + (size[axis] == 1 ? 0 : coordinates[axis]);
    return static_cast<std::size_t>(element);
  }
  std::size_t slope_element(const GradientRow& row) const {
    const Index sequence = backward_.problem.alibi_per_sequence ? sequence_.index : 0;
    return static_cast<std::size_t>(sequence * call_.heads + row.row.head);
  }

  const BackwardCall& backward_;
  const semantics::Call& call_;
  const semantics::Sequence sequence_;
  const Index kv_head_;
  const std::vector<GradientKey> keys_;
  std::vector<double> dk_, dv_;
};

void write_shared(const BackwardCall& backward, const Shared& shared) {
  const semantics::Gradients& g = backward.gradients;
  const Index heads = backward.call.heads;
  if (g.dbias) {
    const double* next = shared.dbias.data();
    for (Index b = 0; b < g.dbias_size[0]; ++b) {
      for (Index head = 0; head < g.dbias_size[1]; ++head) {
        for (Index query = 0; query < g.dbias_size[2]; ++query, next += g.dbias_size[3]) {
          write(g.dbias, backward.problem.dbias.dtype,
                semantics::pair_offset(g.dbias_stride, b, head, query, 0), next, g.dbias_size[3]);
        }
      }
    }
  }
  if (g.dsinks) write(g.dsinks, DType::f32, 0, shared.dsinks.data(), heads);
  for (std::size_t b = 0; g.dalibi && b * static_cast<std::size_t>(heads) < shared.dalibi.size();
       ++b) {
    write(g.dalibi, DType::f32, static_cast<Index>(b) * g.dalibi_stride,
          shared.dalibi.data() + b * static_cast<std::size_t>(heads), heads);
  }
}

void run(const Task& task, const semantics::Call& call, const semantics::Gradients& gradients) {
  const BackwardCall backward = {task.problem, call, gradients};
  Shared shared;
  const Index sequences = task.problem.alibi_per_sequence ? call.batch : 1;
  shared.dsinks.resize(static_cast<std::size_t>(call.heads));
  shared.dalibi.resize(static_cast<std::size_t>(sequences * call.heads));
  if (gradients.dbias) {
    Index elements = 1;
    for (const Index size : gradients.dbias_size) elements *= size;
    shared.dbias.resize(static_cast<std::size_t>(elements));
  }
  for (Index b = 0; b < call.batch; ++b) {
    const semantics::Sequence sequence = semantics::sequence(call, b);
    for (Index kv_head = 0; kv_head < call.kv_heads; ++kv_head) {
      OneKvHead own(backward, sequence, kv_head);
      for (const GradientRow& row : gradient_rows(backward, sequence, kv_head)) {
        own.add(row, shared);
        if (task.executor->stopped()) return;
      }
      own.write_keys();
    }
  }
  write_shared(backward, shared);
}

std::unique_ptr<const Prepared> prepare(const Task& task) {
  return prepared([task](const semantics::Call& call, const semantics::Gradients& gradients,
                         const Launch&) { run(task, call, gradients); });
}

}  // namespace

const Kernel cpu_oracle_backward = {
    .name = "cpu.oracle_backward",
    .summary = "plain fp64, one pair at a time: what gradients are compared with",
    .backend = Backend::cpu,
    .operation = Operation::backward,
    .by_name_only = true,
    .supports = supports,
    .configs = one_empty_config,
    .estimate = estimate,
    .workspace = workspace,
    .prepare = prepare,
};

}  // namespace rapt
