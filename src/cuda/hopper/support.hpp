// What kernels for Hopper alone need: instructions of sm_90a, which no other GPU has, and which
// code for other architectures cannot become.
#pragma once

#include "src/core/kernel.hpp"

namespace rapt::cuda {

inline Support on_hopper(const Device& device) {
  if (!device.has("sm_90"))
    return Support::no("it needs a Hopper GPU, sm_90; this is " + device.features);
#if !defined(RAPT_WITH_SM_90A)
  return Support::no("it was not compiled: build with 90a-real among RAPT_CUDA_ARCHITECTURES");
#else
  return Support::yes();
#endif
}

}  // namespace rapt::cuda
