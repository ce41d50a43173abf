// What the host side of backward's kernels shares: where D and the rows' parts of dalibi lie in the
// workspace, and how dbias is cut into parts.
#pragma once

#include <algorithm>

#include "src/core/kernel.hpp"
#include "src/gpu/flash_backward.hpp"

namespace rapt::gpu {

inline FlashBackwardConfig flash_backward_config_of(const Problem& p) {
  return flash_backward_config(static_cast<int>(std::max(p.qk_dim, p.v_dim)));
}

// Where kernels keep no pairs, dbias is summed by so many blocks a tile that they fill the chip.
struct BiasParts {
  static constexpr Index blocks_wanted = 2;  // a multiprocessor
  Index elements = 0, slices = 1;
  double blocks = 0;

  explicit BiasParts(const Task& task) : BiasParts(task.problem, task.device) {}
  BiasParts(const Problem& p, const Device& device) {
    if (!p.dbias.present()) return;
    const Index all[4] = {p.batch, p.heads, p.q_len, p.kv_len};
    Index size[4];
    for (std::size_t axis = 0; axis < 4; ++axis) size[axis] = p.dbias.varies[axis] ? all[axis] : 1;
    elements = size[0] * size[1] * size[2] * size[3];
    const Index tiles = std::max<Index>(bias_tiles(size, flash_backward_config_of(p)), 1);
    slices = std::max<Index>(blocks_wanted * device.multiprocessors / tiles, 1);
    blocks = double(tiles) * double(slices);
  }
  Index bytes() const { return semantics::rounded_up(elements * slices * 4, 64); }
};

class BackwardRows {
 public:
  // From byte `at` of the workspace on.
  BackwardRows(const Problem& p, Index at)
      : at_(at), deltas_(semantics::rounded_up(p.total_q * p.heads * 4, 64)) {}

  std::size_t bytes() const { return static_cast<std::size_t>(at_ + 2 * deltas_); }

  BackwardParameters parameters(const Problem& p, const semantics::Call& call,
                                const semantics::Gradients& gradients, const Launch& launch) const {
    std::byte* rows = launch.workspace.data() + at_;
    return {.call = call,
            .gradients = gradients,
            .dtype = p.dtype,
            .aligned = p.alignment == access_bytes,
            .deltas = reinterpret_cast<float*>(rows),
            .slope_parts = reinterpret_cast<float*>(rows + deltas_)};
  }

 private:
  Index at_, deltas_;
};

}  // namespace rapt::gpu
