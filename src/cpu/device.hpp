// The CPU as a device: its features and nominal limits, and its memory.
#pragma once

#include "src/core/backend.hpp"

namespace rapt {

Device cpu_device(
    std::int32_t threads);  // 0: RAPT_THREADS, else every processor this process may use

std::int32_t available_processors();  // those this process may use

extern const BackendOperations cpu_backend;

}  // namespace rapt
