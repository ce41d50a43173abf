#include <algorithm>

#include "src/core/call.hpp"
#include "src/core/text.hpp"
#include "src/portable/common.hpp"
#include "src/portable/portable_kernels.hpp"

namespace rapt::gpu {
namespace {

constexpr Index most_keys = 16, most_dim = 256;

}  // namespace

Support TinyKvHost::supports(const Problem& p, const Device& device) {
  if (p.kv_len > most_keys)
    return Support::no(text("it takes up to ", most_keys, " keys; this problem has ", p.kv_len));
  if (p.batch_invariant && p.bounded())
    return Support::no(
        "sequences of other batches may have more keys than it takes; it cannot be "
        "batch-invariant");
  if (std::max(p.qk_dim, p.v_dim) > most_dim) return refuse_dim(p, most_dim);
  return blocks_fit(double(p.batch * p.q_len * p.heads), device);
}

std::vector<Config> TinyKvHost::configs(const Problem& p, const Device& device) {
  return one_empty_config(p, device);
}

// Everything is read once.
Estimate TinyKvHost::estimate(const Task& task) {
  const Problem& p = task.problem;
  const double rows = double(std::max<Index>(p.total_q, 1)) * double(p.heads);
  return WaveModel(task.device, reach_of(task.device).tiny_kv,
                   {.blocks = rows,
                    .uneven = true,
                    .step_flops = p.flops() / rows,
                    .flops_per_second = task.device.nominal.f32_flops,
                    .bytes = p.bytes()})
      .whole();
}

std::size_t TinyKvHost::workspace(const Task&) { return 0; }

std::unique_ptr<const Prepared> TinyKvHost::prepare(const Launches& launches, const Task& task) {
  return prepared([&launches, task](const semantics::Call& call, const Launch& launch) {
    const TinyKvParameters parameters = {
        .call = call,
        .dtype = task.problem.dtype,
        .rows = static_cast<int>(call.batch * call.q_len * call.heads),
        .heads = divisor(call.heads),
        .q_len = divisor(std::max<Index>(call.q_len, 1)),
        .group = divisor(call.heads / call.kv_heads),
        .aligned = task.problem.alignment == access_bytes,
    };
    launches.tiny_kv(parameters, where(task, launch));
  });
}

}  // namespace rapt::gpu
