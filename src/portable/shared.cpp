#include <algorithm>
#include <cmath>

#include "src/portable/common.hpp"
#include "src/portable/portable_kernels.hpp"
#include "src/portable/score_matrix.hpp"

namespace rapt::gpu {

Support SharedHost::supports(const Problem& p, const Device& device) {
  return matrix_fits(p, device, 0);
}

std::vector<Config> SharedHost::configs(const Problem& p, const Device& device) {
  return one_empty_config(p, device);
}

// Whole tiles of queries are computed, however few there are.
Estimate SharedHost::estimate(const Task& task) {
  const Problem& p = task.problem;
  const double rows = large_tiles.rows, queries = double(std::max<Index>(p.q_len, 1));
  const double tiles = std::ceil(queries / rows);
  return estimate_with_scores(task, reach_of(task.device).shared,
                              p.flops() * tiles * rows / queries,
                              tiles * double(p.heads) * double(p.batch), 3);
}

std::size_t SharedHost::workspace(const Task& task) {
  return MatrixShape(task.problem, 0, 1).bytes;
}

std::unique_ptr<const Prepared> SharedHost::prepare(const Launches& launches, const Task& task) {
  const MatrixShape shape(task.problem, 0, 1);
  return prepared([&launches, task, shape](const semantics::Call& call, const Launch& launch) {
    launches.tiled(make_matrix(shape, task.problem, call, launch), {large_tiles.rows, false},
                   where(task, launch));
  });
}

}  // namespace rapt::gpu
