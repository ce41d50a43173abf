#include "src/portable/common.hpp"

#include <algorithm>

#include "src/core/text.hpp"

namespace rapt::gpu {
namespace {

// AMD's GPUs count the threads of a launch.
constexpr Index most_threads_x = 0xffffffff;
constexpr Index most_threads = 256;  // of a block of any portable kernel

}  // namespace

Problem problem_of_run(const Problem& problem, const semantics::Call& call) {
  Problem p = problem;
  const double share = problem.batch > 0 ? double(call.batch) / double(problem.batch) : 1;
  const bool packed_keys = problem.varlen && !problem.paged();
  p.batch = call.batch;
  p.q_len = call.q_len;
  p.kv_len = call.kv_len;
  p.total_q = call.total_q;
  p.total_kv = packed_keys ? call.total_kv
                           : std::min(static_cast<Index>(share * double(problem.total_kv)),
                                      call.batch * call.kv_len);
  return p;
}

Support refuse_dim(const Problem& problem, Index most) {
  return Support::no(text("it takes head dims up to ", most, "; this problem has ",
                          std::max(problem.qk_dim, problem.v_dim)));
}

Support lengths_fit(const Problem& p, Index most) {
  if (const Index longest = std::max({p.q_len, p.kv_len, p.page_size}); longest > most)
    return Support::no(
        text("it takes lengths and pages up to ", most, "; this problem has ", longest));
  if (p.offset && (*p.offset > most || *p.offset < -most))
    return Support::no(text("it takes offsets up to ", most, "; this problem has ", *p.offset));
  return Support::yes();
}

Support blocks_fit(double blocks, const Device& device) {
  const Index most =
      device.backend == Backend::cuda ? most_blocks_x : most_threads_x / most_threads;
  if (blocks <= double(most)) return Support::yes();
  return Support::no(text("it would launch ", blocks, " blocks; ", device.to_string(), " takes ",
                          most, ": split the batch"));
}

Estimate compute_estimate(const Task& task, double flops, double efficiency, double blocks,
                          double launches) {
  const Limits& nominal = task.device.nominal;
  const double busy =
      std::clamp(blocks / task.device.multiprocessors, 1.0 / task.device.multiprocessors, 1.0);
  return estimate_from(flops, efficiency * busy * nominal.f32_flops, task.problem.bytes(),
                       0.85 * nominal.read_bandwidth, launches * launch_seconds);
}

Estimate matrix_estimate(const Task& task, double efficiency, double blocks, double launches) {
  const Problem& p = task.problem;
  const Limits& nominal = task.device.nominal;
  const double scores = double(p.total_q) * double(p.heads) * double(p.kv_len);
  const Estimate products = compute_estimate(task, p.flops(), efficiency, blocks, launches);
  return {products.seconds + 16 * scores / (0.85 * nominal.read_bandwidth), products.bound};
}

}  // namespace rapt::gpu
