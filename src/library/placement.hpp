// Whether tensors lie where the kernels of a device reach them. On a GPU a pointer into the host's
// memory would end the process's use of it.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "src/core/backend.hpp"

namespace rapt {

// Throws Error if the device cannot reach a tensor. Looks at addresses only, and takes one that is
// null: whoever checks tensors otherwise knows which may be.
void check_placement(const BackendOperations& backend, const Device& device, std::string_view name,
                     const Tensor& tensor);

// The same for all tensors, and the workspace.
void check_placement(const BackendOperations& backend, const Device& device,
                     const Arguments& arguments, std::span<const std::byte> workspace = {});

}  // namespace rapt
