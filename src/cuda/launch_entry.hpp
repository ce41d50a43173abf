// Launches a kernel of one parameter. As cudaLaunchKernelEx does, without copying the parameter
// once more: those of attention kernels have up to 1.4 kB.
#pragma once

#include "src/cuda/check.hpp"

namespace rapt::cuda {

template <class Parameters>
void launch_entry(const cudaLaunchConfig_t& config, void (*entry)(Parameters),
                  const Parameters& parameters) {
  void* arguments[] = {const_cast<Parameters*>(&parameters)};
  require(cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(entry), arguments),
          "launch a kernel");
}

}  // namespace rapt::cuda
