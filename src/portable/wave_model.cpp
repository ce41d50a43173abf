#include "src/portable/wave_model.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace rapt::gpu {
namespace {

double norm(double a, double b) {
  constexpr double far = 8;  // beyond which the smaller one changes nothing
  if (a > far * b) return a;
  if (b > far * a) return b;
  const double a2 = a * a, b2 = b * b;
  return std::sqrt(std::sqrt(a2 * a2 + b2 * b2));
}

// Of counts, which are not negative: std::floor and std::ceil are calls.
double rounded_down(double count) {
  constexpr double whole_from = 1LL << 53;
  return count < whole_from ? static_cast<double>(static_cast<std::int64_t>(count)) : count;
}
double rounded_up(double count) {
  const double down = rounded_down(count);
  return down < count ? down + 1 : down;
}

}  // namespace

WaveModel::WaveModel(const Device& device, const KernelReach& reach, const Counts& counts)
    : counts_(counts), multiprocessors_(std::max(device.multiprocessors, 1)) {
  const Reach& chip = reach_of(device);
  const PagedReach paged = counts.paged ? reach.paged : PagedReach{};
  const double bandwidth = std::max(device.nominal.read_bandwidth, 1.0);
  const double rate = counts.rate * paged.rate * reach.rate.at(counts.dim) *
                      (counts.score_mod ? reach.score_mod.at(counts.dim) : 1.0);
  compute_ = counts.step_flops * multiprocessors_ / (rate * std::max(counts.flops_per_second, 1.0));
  memory_ = counts.bytes / (reach.bandwidth * paged.bandwidth * bandwidth);
  apart_ = counts.apart_bytes / (reach.bandwidth * bandwidth);
  overhead_ = counts.launches * chip.launch_seconds + reach.start_seconds;
  block_ = reach.block_seconds;
  const double latency = counts.latency * reach.step_seconds * paged.step_seconds;
  for (int resident = 1; resident <= counts.resident; ++resident)
    step_[resident] = norm(std::max(compute_ / reach.alone, resident * compute_), latency);
  combine_ = chip.launch_seconds + chip.combine.block_seconds;
  combine_step_ = chip.combine.step_seconds;
  partials_ = 2 * counts.partial_bytes / (chip.combine.bandwidth * bandwidth);
}

double WaveModel::chunk_of(double keys, double splits) const {
  return std::min(keys, std::max(counts_.least_chunk, rounded_up(keys / splits)));
}

double WaveModel::wave(double resident, double steps) const {
  return resident > 0 ? block_ + steps * step_[static_cast<std::size_t>(resident)] : 0;
}

double WaveModel::combining(double chunks) const {
  return combine_ + rounded_up(chunks / counts_.combined_at_once) * combine_step_ +
         chunks * partials_;
}

Estimate WaveModel::with(double splits) const {
  const double chunk = chunk_of(counts_.keys, splits);
  const double chunks = chunk > 0 ? rounded_up(counts_.keys / chunk) : 1;
  const double exact = chunk / counts_.step_keys;
  // Of blocks with different numbers of keys, the last step is half full on average.
  const double steps = counts_.uneven ? exact + 0.5 : rounded_up(exact);
  const double each = counts_.blocks * chunks / multiprocessors_, resident = counts_.resident;
  const double full = each / resident;  // waves
  double waves = 0;
  if (counts_.uneven) {
    const double longest = rounded_up(chunk_of(counts_.most_keys, splits) / counts_.step_keys);
    waves = std::max(full * wave(resident, std::min(steps, longest)), wave(1, longest));
  } else {
    const double whole = rounded_down(full);
    waves = whole * wave(resident, steps) + wave(rounded_up(each - whole * resident), steps);
  }
  const double seconds =
      overhead_ + norm(waves, memory_) + apart_ + (chunks > 1 ? combining(chunks) : 0);
  const double compute = each * steps * compute_;
  const double memory = memory_ + apart_;
  const bool idle = std::max(compute, memory) < seconds / 2;
  return {seconds, idle ? "overhead" : compute > memory ? "compute" : "memory"};
}

}  // namespace rapt::gpu
