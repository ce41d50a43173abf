// What the host side of backward's kernels shares: where D and the rows' parts of dalibi lie in the
// workspace.
#pragma once

#include "src/core/kernel.hpp"
#include "src/gpu/backward.hpp"

namespace rapt::gpu {

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
