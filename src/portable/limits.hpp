// Measures what a GPU reaches with the kernels of src/gpu/limits.hpp.
#pragma once

#include <functional>

#include "rapt/rapt.hpp"
#include "src/core/rates.hpp"
#include "src/core/stream_clock.hpp"
#include "src/gpu/limits.hpp"

namespace rapt::gpu {

// The least of many times that `work` takes in the clock's stream.
double best_seconds(StreamClock& clock, const std::function<void()>& work);

using LaunchLimits = void (*)(const LimitsParameters&, Where);

// All but the rates of matrix units.
Rates measure_rates(const Device& device, StreamClock& clock, LaunchLimits launch);

}  // namespace rapt::gpu
