// The clock of an AMD GPU.
#pragma once

#include <memory>

#include "rapt/rapt.hpp"
#include "src/core/stream_clock.hpp"

namespace rapt::hip {

std::unique_ptr<StreamClock> clock_of(const Device& device);

}  // namespace rapt::hip
