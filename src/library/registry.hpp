// What this build contains: its backends and its kernels.
#pragma once

#include <span>

#include "src/core/backend.hpp"
#include "src/core/kernel.hpp"

namespace rapt {

// Every kernel, in the order of the ladder.
std::span<const Kernel* const> registered_kernels();

// Throws Error with the names that exist.
const Kernel& find_kernel(std::string_view name);

std::span<const BackendOperations* const> registered_backends();

// Throws Error if this build has no such backend.
const BackendOperations& find_backend(Backend backend);

}  // namespace rapt
