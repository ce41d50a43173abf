// The environment variables rapt reads, and its log.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rapt {

// RAPT_LOG=1: one line per plan and per run on stderr. RAPT_CHECK=1: index data on a GPU is read
// back and checked.
bool environment_flag(const char* name);
// RAPT_TUNING: the tuning file; set to nothing, there is none. Absent where it is not set at all.
std::optional<std::string> environment_value(const char* name);
// RAPT_KERNEL: the kernel to use where the caller names none. RAPT_SIMD: the best vector
// instructions that CPU kernels may use.
std::string environment_text(const char* name);
// RAPT_THREADS: throws Error if it is set to anything but a whole number from 1 to 1024.
std::optional<std::int32_t> environment_threads();

void log_line(std::string_view line);

}  // namespace rapt
