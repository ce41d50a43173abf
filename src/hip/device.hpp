// AMD GPUs as devices: what they are, and their memory.
#pragma once

#include "src/core/backend.hpp"

namespace rapt {

extern const BackendOperations hip_backend;

}  // namespace rapt
