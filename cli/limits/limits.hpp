// What this machine's CPU really reaches, measured once and remembered in the user's cache folder.
//
// Measured limits serve `% of roof` only; the choice of a kernel follows nominal limits.
#pragma once

#include <cstdint>
#include <optional>

#include "rapt/rapt.hpp"

namespace rapt::cli {

// Flop/s and bytes/s; 0 where the chip has no such unit. A copy counts what it reads and what it
// writes.
struct Rates {
  double f32_flops = 0;
  double matrix_flops = 0;  // bf16 on AMX
  double read_bandwidth = 0, copy_bandwidth = 0;
};

struct MeasuredLimits {
  Rates one_thread, all_threads;
  std::int32_t threads = 1;     // how many "all" are
  double dispatch_seconds = 0;  // of a job without work on all threads; 0 if unknown
};

enum class Freshness {
  cached,  // what an earlier measurement left, else measured now
  now,     // measured now
};

// What an earlier measurement left, if anything. Only the CPU is ever measured.
std::optional<MeasuredLimits> cached_limits(const Device& device);

// Takes up to some ten seconds where it has to measure, and remembers the result. Throws Error for
// a GPU. A cache that cannot be read or written is one warning on stderr.
MeasuredLimits measured_limits(const Device& device, Freshness freshness);

// The limits a roof is drawn from: on the CPU what `device.threads` threads reach by measurement,
// on a GPU the nominal limits.
Limits roof_limits(const Device& device, Freshness freshness = Freshness::cached);

}  // namespace rapt::cli
