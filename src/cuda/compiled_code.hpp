// Which GPUs this build has code for. A GPU without any is refused before something is launched.
#pragma once

#include <string_view>

#include "src/core/kernel.hpp"

namespace rapt::cuda {

Support has_code(const Device& device);

// With other architectures than the build's: "80-virtual,90a-real", as in CMAKE_CUDA_ARCHITECTURES.
Support has_code(const Device& device, std::string_view architectures);

}  // namespace rapt::cuda
