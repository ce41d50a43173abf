// Whether tensors lie where the kernels of a device reach them. On a GPU a pointer into the host's
// memory would end the process's use of it.
#pragma once

#include <cstddef>
#include <span>

#include "src/core/backend.hpp"

namespace rapt {

// Throws Error with the first tensor that the device cannot reach. Looks at addresses only, and
// takes one that is null: match() knows which may be.
void check_placement(const BackendOperations& backend, const Device& device,
                     const Arguments& arguments, std::span<const std::byte> workspace = {});

}  // namespace rapt
