// What the chips here really reach, measured once and remembered in the user's cache folder.
//
// Measured limits serve `% of roof` only; the choice of a kernel follows nominal limits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "rapt/rapt.hpp"
#include "src/core/rates.hpp"

namespace rapt::cli {

struct MeasuredLimits {
  Rates one_thread, all_threads;  // of a GPU: nothing, and the whole chip
  std::int32_t threads = 1;       // how many "all" are; of a GPU: not looked at
  double dispatch_seconds = 0;    // of a job without work on all threads; 0 if unknown
};

enum class Freshness {
  cached,  // what an earlier measurement left, else measured now
  now,     // measured now
};

// What a device does at once, in words: "2 threads", "132 multiprocessors".
std::string width_of(const Device& device);

bool can_measure(const Device& device);

// What an earlier measurement left, if anything.
std::optional<MeasuredLimits> cached_limits(const Device& device);

// Takes up to some ten seconds where it has to measure, and remembers the result. Throws Error
// where a chip cannot be measured. A cache that cannot be read or written is one warning on stderr.
MeasuredLimits measured_limits(const Device& device, Freshness freshness);

// The limits a roof is drawn from: what `device.threads` threads of the CPU, or a GPU, reach by
// measurement. What cannot be measured is nominal.
Limits roof_limits(const Device& device, Freshness freshness = Freshness::cached);

}  // namespace rapt::cli
