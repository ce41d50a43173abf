// Registers, of which the model has enough.
#pragma once

namespace rapt::cuda::ptx {

template <int count>
void deallocate_registers() {}
template <int count>
void allocate_registers() {}

}  // namespace rapt::cuda::ptx
