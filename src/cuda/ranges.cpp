#include "src/cuda/ranges.hpp"

#include <nvtx3/nvToolsExt.h>

namespace rapt::cuda {

void begin_range(const char* label) { nvtxRangePushA(label); }
void end_range() { nvtxRangePop(); }

}  // namespace rapt::cuda
