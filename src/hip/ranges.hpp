// Ranges of roctx, where that library can be loaded: what ROCm's profilers show around the kernels
// of a run.
#pragma once

namespace rapt::hip {

void begin_range(const char* label);
void end_range();

}  // namespace rapt::hip
