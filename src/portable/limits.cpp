#include "src/portable/limits.hpp"

#include <algorithm>
#include <limits>

namespace rapt::gpu {
namespace {

constexpr int trials = 20;
constexpr double most_bytes = 1 << 30;  // of one side of a copy: far more than caches hold
constexpr double share_of_memory = 1.0 / 8;
constexpr int blocks_of_processor = 8, rounds = 2000;

}  // namespace

double best_seconds(StreamClock& clock, const std::function<void()>& work) {
  double best = std::numeric_limits<double>::infinity();
  for (int trial = 0; trial < trials; ++trial) {
    clock.start();
    work();
    best = std::min(best, clock.stop());
  }
  return best;
}

Rates measure_rates(const Device& device, StreamClock& clock, LaunchLimits launch) {
  const double bytes_of_block = double{StreamShape::vectors_of_block} * sizeof(Vector16);
  const auto blocks = static_cast<Index>(
      std::min(most_bytes, share_of_memory * device.nominal.memory_bytes) / bytes_of_block);
  const double bytes = double(blocks) * bytes_of_block;
  const Buffer source(device, static_cast<std::size_t>(bytes));
  const Buffer target(device, static_cast<std::size_t>(bytes));
  LimitsParameters parameters = {
      .what = LimitsParameters::What::copy,
      .vectors = blocks * StreamShape::vectors_of_block,
      .from = static_cast<const Vector16*>(source.data()),
      .to = static_cast<Vector16*>(target.data()),
      .blocks = Index{device.multiprocessors} * blocks_of_processor,
      .rounds = rounds,
      .factor = std::numeric_limits<float>::quiet_NaN(),
      .addend = 1,
  };
  const auto seconds = [&](LimitsParameters::What what) {
    parameters.what = what;
    return best_seconds(clock, [&] { launch(parameters, {device.index, clock.stream()}); });
  };
  Rates rates;
  rates.copy_bandwidth = 2 * bytes / seconds(LimitsParameters::What::copy);
  rates.read_bandwidth = bytes / seconds(LimitsParameters::What::read);
  parameters.factor = 0.5f;
  rates.f32_flops = double(parameters.blocks) * rounds * MultiplyAddShape::flops_of_round /
                    seconds(LimitsParameters::What::multiply_add);
  return rates;
}

}  // namespace rapt::gpu
