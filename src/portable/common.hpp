// What the host side of all portable kernels needs.
#pragma once

#include "src/core/kernel.hpp"
#include "src/gpu/launch.hpp"
#include "src/portable/wave_model.hpp"

namespace rapt::gpu {

inline Where where(const Task& task, const Launch& launch) {
  return {task.device.index, launch.stream};
}

// As of a Call (src/gpu/softmax.hpp): whether a score is more than a dot product times a scale
// above 0.
inline bool has_score_mod(const Problem& p) {
  return p.bias.present() || p.mask.present() || p.alibi || p.softcap > 0 || p.scale <= 0;
}

// Whether a tile of rows may see two ranges of keys, or scores that are more than that.
inline bool is_general(const Problem& p) {
  return has_score_mod(p) || p.window.first_keys > 0 || p.dropout > 0;
}

// The problem that a run within its bounds poses: with the sizes of the run, and as many of the
// expected keys as its sequences may have.
Problem problem_of_run(const Problem& problem, const semantics::Call& call);
// Whether a run has all that the problem allows.
inline bool is_full(const Problem& p, const semantics::Call& call) {
  return call.batch == p.batch && call.total_q == p.total_q && call.kv_len == p.kv_len;
}

// A refusal if a head is wider than a kernel takes.
Support refuse_dim(const Problem& problem, Index most);

// A refusal if lengths, pages or the offset are more than a kernel counts to.
Support lengths_fit(const Problem& problem, Index most);

// A refusal if a launch would have more blocks than the device takes.
Support blocks_fit(double blocks, const Device& device);

// Whether rows see different numbers of keys.
inline bool is_uneven(const Problem& p) {
  return p.window.left || p.window.right || p.varlen || p.lengths;
}
// Keys that a row sees, on average.
double keys_of_row(const Problem& problem);
// Of packed tiles of queries, the share that there are.
double filled_tiles(const Problem& problem);

// A kernel that keeps all scores, as the model counts it: products in so many blocks, and every
// score written and read twice.
Estimate estimate_with_scores(const Task& task, const KernelReach& reach, double flops,
                              double blocks, double launches);

}  // namespace rapt::gpu
