// The workspace of kernels that keep scores in global memory.
#pragma once

#include "src/core/kernel.hpp"
#include "src/gpu/score_matrix.hpp"

namespace rapt::gpu {

struct MatrixShape {
  Index rows, chunk, slices, slice_dim;
  Index states_at, sums_at;  // bytes from the start of the workspace
  std::size_t bytes;

  // `keys` of a chunk, at most; 0: all of them.
  MatrixShape(const Problem& problem, Index keys, Index slices);
};

// A refusal if the matrix is larger than the device's memory, or a launch larger than a GPU takes.
Support matrix_fits(const Problem& problem, const Device& device, Index keys);

ScoreMatrix make_matrix(const MatrixShape& shape, const Problem& problem,
                        const semantics::Call& call, const Launch& launch);

}  // namespace rapt::gpu
