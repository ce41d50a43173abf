#include <algorithm>

#include "src/core/layout.hpp"
#include "src/core/text.hpp"
#include "src/portable/backward.hpp"
#include "src/portable/common.hpp"
#include "src/portable/portable_kernels.hpp"

namespace rapt::gpu {
namespace {

// The matrices, then what rows have beside them.
struct Shape {
  Index matrix, matrices;
  BackwardRows rows;

  explicit Shape(const Problem& p)
      : matrix(p.total_q * p.heads * p.kv_len),
        matrices(p.softcap > 0 && (p.dbias.present() || p.dalibi) ? 3 : 2),
        rows(p, semantics::rounded_up(matrix * matrices * 4, 64)) {}
};

double pairs_of(const Problem& p) {
  return double(p.batch) * double(p.q_len) * double(p.heads) * double(p.kv_len);
}

}  // namespace

Support NaiveBackwardHost::supports(const Problem& p, const Device& device) {
  const double bytes = 12 * double(p.total_q) * double(p.heads) * double(p.kv_len);
  const double limit = device.nominal.memory_bytes > 0 ? device.nominal.memory_bytes : 0x1p62;
  if (bytes > limit) {
    return Support::no(text("it would store ", human_bytes(bytes),
                            " of weights and gradients of scores; ", device.to_string(), " has ",
                            human_bytes(limit)));
  }
  // At least four pairs a block; at most a block for some dims of a row, or for an element of
  // dbias.
  const double dims = double(semantics::divided_up(std::max(p.qk_dim, p.v_dim), NaiveRows::dims));
  const double rows = double(p.batch) * std::max(double(p.q_len) * double(p.heads),
                                                 double(p.kv_len) * double(p.kv_heads));
  return blocks_fit(std::max(pairs_of(p) / 4, rows * dims) + 1, device);
}

std::vector<Config> NaiveBackwardHost::configs(const Problem& p, const Device& device) {
  return one_empty_config(p, device);
}

Estimate NaiveBackwardHost::estimate(const Task& task) {
  const Problem& p = task.problem;
  return estimate_with_scores(task, reach_of(task.device).naive_backward, p.flops(),
                              double(p.total_q) * double(p.heads), 5);
}

std::size_t NaiveBackwardHost::workspace(const Task& task) {
  return Shape(task.problem).rows.bytes();
}

std::unique_ptr<const Prepared> NaiveBackwardHost::prepare(const Launches& launches,
                                                           const Task& task) {
  const Shape shape(task.problem);
  return prepared([&launches, task, shape](const semantics::Call& call,
                                           const semantics::Gradients& gradients,
                                           const Launch& launch) {
    auto* matrices = reinterpret_cast<float*>(launch.workspace.data());
    launches.naive_backward({.common = shape.rows.parameters(task.problem, call, gradients, launch),
                             .keys = task.problem.kv_len,
                             .weights = matrices,
                             .products = matrices + shape.matrix,
                             .scores = matrices + shape.matrix * (shape.matrices - 1)},
                            where(task, launch));
  });
}

}  // namespace rapt::gpu
