#include "cli/bench/stopwatch.hpp"

#include <chrono>

#include "cli/bench/samples.hpp"
#include "src/library/registry.hpp"

namespace rapt::cli {
namespace {

constexpr int runs_in_a_row = 20, rows = 15;

// Of one of the runs that `start_row` starts, the median over the rows. The first one warms up.
template <class StartRow>
double median_in_a_row(StreamClock& clock, const StartRow& start_row) {
  Samples samples;
  for (int row = 0; row <= rows; ++row) {
    clock.start();
    start_row();
    const double seconds = clock.stop() / runs_in_a_row;
    if (row > 0) samples.add(seconds);
  }
  return samples.median();
}

}  // namespace

bool has_own_clock(const Device& device) { return find_backend(device.backend).clock != nullptr; }

std::unique_ptr<StreamClock> own_clock(const Device& device) {
  return has_own_clock(device) ? find_backend(device.backend).clock(device) : nullptr;
}

double Stopwatch::seconds(const Run& run) const {
  if (clock_) {
    clock_->clear_cache();
    clock_->start();
    run.start(clock_->stream());
    return clock_->stop();
  }
  const auto start = std::chrono::steady_clock::now();
  run.start(nullptr);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

SecondsInARow Stopwatch::seconds_in_a_row(const Run& run) const {
  const auto start_row = [&] {
    for (int i = 0; i < runs_in_a_row; ++i) run.start(clock_->stream());
  };
  const double launched = median_in_a_row(*clock_, start_row);
  clock_->capture(start_row);
  return {launched, median_in_a_row(*clock_, [&] { clock_->replay(); })};
}

}  // namespace rapt::cli
