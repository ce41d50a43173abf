// Registers change hands between the warpgroups of a block: those that load need few.
#pragma once

#include "src/gpu/target.hpp"

namespace rapt::cuda::ptx {

template <int count>
RAPT_DEVICE void deallocate_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}
template <int count>
RAPT_DEVICE void allocate_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}

}  // namespace rapt::cuda::ptx
