// What an NVIDIA GPU reaches by measurement.
#pragma once

#include "rapt/rapt.hpp"
#include "src/core/rates.hpp"

namespace rapt::cuda {

Rates measure(const Device& device);

}  // namespace rapt::cuda
