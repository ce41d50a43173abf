// What an AMD GPU reaches by measurement: all but its matrix units.
#pragma once

#include "rapt/rapt.hpp"
#include "src/core/rates.hpp"

namespace rapt::hip {

Rates measure(const Device& device);

}  // namespace rapt::hip
