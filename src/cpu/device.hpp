// The CPU as a device: its features and nominal limits, and its memory.
#pragma once

#include "src/core/backend.hpp"

namespace rapt {

Device cpu_device(
    std::int32_t threads);  // 0: RAPT_THREADS, else every processor this process may use

// Those this process may use: its CPU set, and the quota of its container.
std::int32_t available_processors();

extern const BackendOperations cpu_backend;

}  // namespace rapt
