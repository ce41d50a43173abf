// NVTX ranges: what nsys and ncu show around the kernels of a run.
#pragma once

namespace rapt::cuda {

void begin_range(const char* label);
void end_range();

}  // namespace rapt::cuda
