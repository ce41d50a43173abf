#include <algorithm>

#include "src/portable/backward.hpp"
#include "src/portable/common.hpp"
#include "src/portable/portable_kernels.hpp"

namespace rapt::gpu {
namespace {

using semantics::divided_up;

constexpr Index most_dim = 256;

double query_blocks(const Problem& p) {
  return double(divided_up(p.q_len, flash_backward_config_of(p).own)) * double(p.heads) *
         double(p.batch);
}
double key_blocks(const Problem& p) {
  return double(divided_up(p.kv_len, flash_backward_config_of(p).own)) * double(p.kv_heads) *
         double(p.batch);
}

}  // namespace

Support FlashBackwardHost::supports(const Problem& p, const Device& device) {
  if (std::max(p.qk_dim, p.v_dim) > most_dim) return refuse_dim(p, most_dim);
  const double rows = double(p.batch) * double(p.q_len) * double(p.heads);
  return blocks_fit(std::max({query_blocks(p), key_blocks(p), BiasParts(p, device).blocks, rows}),
                    device);
}

std::vector<Config> FlashBackwardHost::configs(const Problem& p, const Device& device) {
  return one_empty_config(p, device);
}

// Seven products of whole tiles, counted as if all were made by the blocks of queries.
Estimate FlashBackwardHost::estimate(const Task& task) {
  const Problem& p = task.problem;
  const FlashBackwardConfig config = flash_backward_config_of(p);
  const double multiplications = std::max(1.0, 3.0 * double(p.qk_dim) + 2.0 * double(p.v_dim));
  const double rows = std::max(1.0, double(p.total_q) * double(p.heads));
  return WaveModel(task.device, reach_of(task.device).flash_backward,
                   {.blocks = std::max(query_blocks(p) * filled_tiles(p), 1.0),
                    .resident = config.blocks,
                    .keys = p.flops() / (2 * multiplications * rows),
                    .most_keys = double(p.kv_len),
                    .uneven = is_uneven(p),
                    .step_keys = double(config.streamed),
                    .step_flops = 14.0 * config.dim * config.own * config.streamed,
                    .flops_per_second = task.device.nominal.f32_flops,
                    .bytes = 2 * p.bytes(),
                    .launches = 3})
      .whole();
}

std::size_t FlashBackwardHost::workspace(const Task& task) {
  return BackwardRows(task.problem, BiasParts(task).bytes()).bytes();
}

std::unique_ptr<const Prepared> FlashBackwardHost::prepare(const Launches& launches,
                                                           const Task& task) {
  const BiasParts parts(task);
  const BackwardRows rows(task.problem, parts.bytes());
  return prepared([&launches, task, parts, rows](const semantics::Call& call,
                                                 const semantics::Gradients& gradients,
                                                 const Launch& launch) {
    launches.flash_backward({.common = rows.parameters(task.problem, call, gradients, launch),
                             .bias_parts = reinterpret_cast<float*>(launch.workspace.data()),
                             .bias_slices = parts.slices},
                            where(task, launch));
  });
}

}  // namespace rapt::gpu
