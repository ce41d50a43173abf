#include <algorithm>
#include <cmath>

#include "src/core/call.hpp"
#include "src/portable/common.hpp"
#include "src/portable/portable_kernels.hpp"

namespace rapt::gpu {
namespace {

constexpr Index most_dim = 256;

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

// It computes whole tiles of queries and keys, and the padded head dim.
Estimate FlashHost::estimate(const Task& task) {
  const Problem& p = task.problem;
  const FlashConfig config = config_of(p);
  return WaveModel(task.device, reach_of(task.device).flash,
                   {.blocks = std::max(blocks_of(p) * filled_tiles(p), 1.0),
                    .resident = config.blocks,
                    .keys = keys_of_row(p),
                    .most_keys = most_keys(p, config.rows),
                    .uneven = is_uneven(p),
                    .step_keys = double(config.keys),
                    .step_flops = 4.0 * config.dim * config.rows * config.keys,
                    .flops_per_second = task.device.nominal.f32_flops,
                    .bytes = p.bytes()})
      .whole();
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
