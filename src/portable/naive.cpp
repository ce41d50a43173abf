#include "src/portable/common.hpp"
#include "src/portable/portable_kernels.hpp"
#include "src/portable/score_matrix.hpp"

namespace rapt::gpu {

Support NaiveHost::supports(const Problem& p, const Device& device) {
  return matrix_fits(p, device, 0);
}

std::vector<Config> NaiveHost::configs(const Problem& p, const Device& device) {
  return one_empty_config(p, device);
}

// Bound by loads: four for a multiplication of scores, two for one of out.
Estimate NaiveHost::estimate(const Task& task) {
  const Problem& p = task.problem;
  return estimate_with_scores(task, reach_of(task.device).naive, p.flops(),
                              double(p.total_q) * double(p.heads), 3);
}

std::size_t NaiveHost::workspace(const Task& task) { return MatrixShape(task.problem, 0, 1).bytes; }

std::unique_ptr<const Prepared> NaiveHost::prepare(const Launches& launches, const Task& task) {
  const MatrixShape shape(task.problem, 0, 1);
  return prepared([&launches, task, shape](const semantics::Call& call, const Launch& launch) {
    launches.naive(make_matrix(shape, task.problem, call, launch), where(task, launch));
  });
}

}  // namespace rapt::gpu
