// How a run is timed. On the CPU by the host's clock. On a GPU by events in a stream, each run with
// a cleared cache; and, for runs that are short beside what it takes to launch them, as one of many
// in a row.
#pragma once

#include <memory>
#include <span>
#include <utility>

#include "rapt/rapt.hpp"
#include "src/core/stream_clock.hpp"

namespace rapt::cli {

// Whether runs on a device can be timed in a row.
bool has_own_clock(const Device& device);
std::unique_ptr<StreamClock> own_clock(const Device& device);  // null if it has none

// Seconds of one of many runs in a row. Their data is in the cache if it fits.
struct SecondsInARow {
  double launched;  // one after the other by the host
  double replayed;  // from a captured graph: the device alone
};

// A plan with what it runs on.
struct Run {
  const Plan& plan;
  const Arguments& arguments;
  std::span<std::byte> workspace;
  void start(void* stream) const { plan.run(arguments, {stream, workspace}); }
};

class Stopwatch {
 public:
  // Without a clock: the host's.
  explicit Stopwatch(std::unique_ptr<StreamClock> clock) : clock_(std::move(clock)) {}
  // Whether a run finds nothing of its inputs in the cache, whoever used them before.
  bool clears_cache() const { return clock_ != nullptr; }
  double seconds(const Run& run) const;
  SecondsInARow seconds_in_a_row(const Run& run) const;  // with a clock only

 private:
  std::unique_ptr<StreamClock> clock_;
};

}  // namespace rapt::cli
