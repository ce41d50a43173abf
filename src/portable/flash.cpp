#include <algorithm>
#include <cmath>

#include "src/core/call.hpp"
#include "src/portable/common.hpp"
#include "src/portable/portable_kernels.hpp"

namespace rapt::gpu {
namespace {

constexpr Index most_dim = 256;
constexpr double efficiency = 0.5;  // of the FMA units

FlashConfig config_of(const Problem& p) {
  return flash_config(static_cast<int>(std::max(p.qk_dim, p.v_dim)));
}

double blocks_of(const Problem& p) {
  return double(semantics::divided_up(p.q_len, config_of(p).rows)) * double(p.heads) *
         double(p.batch);
}

// Keys that the queries of a tile see at most.
double most_keys(const Problem& p, Index rows) {
  if (!p.window.left || !p.window.right) return double(p.kv_len);
  return std::min(double(p.kv_len),
                  double(*p.window.left) + double(*p.window.right) + double(rows));
}

}  // namespace

Support FlashHost::supports(const Problem& p, const Device& device) {
  if (std::max(p.qk_dim, p.v_dim) > most_dim) return refuse_dim(p, most_dim);
  return blocks_fit(blocks_of(p), device);
}

std::vector<Config> FlashHost::configs(const Problem& p, const Device& device) {
  return one_empty_config(p, device);
}

// It computes whole tiles of queries and the padded head dim; a multiprocessor needs a block of its
// own. No block ends before it has seen all of its keys, and others share its multiprocessor.
Estimate FlashHost::estimate(const Task& task) {
  const Problem& p = task.problem;
  const FlashConfig config = config_of(p);
  const double rows = double(std::max<Index>(p.q_len, 1));
  const double padding = double(semantics::rounded_up(p.q_len, config.rows)) / rows *
                         (2.0 * config.dim) / double(std::max<Index>(p.qk_dim + p.v_dim, 1));
  const Estimate average = compute_estimate(task, p.flops() * padding, efficiency, blocks_of(p), 1);
  const double multiprocessors = task.device.multiprocessors;
  const double sharing =
      std::clamp(std::ceil(blocks_of(p) / multiprocessors), 1.0, double(config.blocks));
  const double block_flops = 4.0 * config.dim * config.rows * most_keys(p, config.rows);
  const double longest = block_flops * sharing * multiprocessors /
                         (efficiency * std::max(task.device.nominal.f32_flops, 1.0));
  return {std::max(average.seconds, longest), average.bound};
}

std::size_t FlashHost::workspace(const Task&) { return 0; }

std::unique_ptr<const Prepared> FlashHost::prepare(const Launches& launches, const Task& task) {
  return prepared([&launches, task](const semantics::Call& call, const Launch& launch) {
    const Problem& p = task.problem;
    launches.flash({.call = call, .dtype = p.dtype, .aligned = p.alignment == access_bytes},
                   where(task, launch));
  });
}

}  // namespace rapt::gpu
