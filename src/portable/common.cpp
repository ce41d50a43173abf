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

double keys_of_row(const Problem& p) {
  const double rows = double(std::max<Index>(p.total_q, 1)) * double(p.heads);
  return p.flops() / (2.0 * double(std::max<Index>(p.qk_dim + p.v_dim, 1)) * rows);
}

double filled_tiles(const Problem& p) {
  return p.varlen ? double(p.total_q) / std::max(1.0, double(p.q_len * p.batch)) : 1;
}

Estimate estimate_with_scores(const Task& task, const KernelReach& reach, double flops,
                              double blocks, double launches) {
  const Problem& p = task.problem;
  constexpr double bytes_of_score = 16;
  const double scores = double(p.total_q) * double(p.heads) * double(p.kv_len);
  const double some_blocks = std::max(blocks, 1.0);
  return WaveModel(task.device, reach,
                   {.blocks = some_blocks,
                    .uneven = true,
                    .step_flops = flops / some_blocks,
                    .flops_per_second = task.device.nominal.f32_flops,
                    .bytes = p.bytes(),
                    .apart_bytes = bytes_of_score * scores,
                    .launches = launches})
      .whole();
}

}  // namespace rapt::gpu
