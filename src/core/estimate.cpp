// Estimates from counts of work.
#include <algorithm>

#include "src/core/kernel.hpp"

namespace rapt {

Estimate estimate_from(double flops, double flops_per_second, double bytes, double bytes_per_second,
                       double overhead) {
  const double compute = flops_per_second > 0 ? flops / flops_per_second : 0;
  const double memory = bytes_per_second > 0 ? bytes / bytes_per_second : 0;
  const double work = std::max(compute, memory);
  const std::string_view bound = overhead > work     ? "overhead"
                                 : compute >= memory ? "compute"
                                                     : "memory";
  return {work + overhead, bound};
}

}  // namespace rapt
