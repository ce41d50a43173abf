#include "cli/bench/roof.hpp"

#include <algorithm>

namespace rapt::cli {

Roof roof_of(const Problem& problem, const Limits& limits) {
  const bool matrix = problem.dtype != DType::f32 && limits.matrix_flops > limits.f32_flops;
  const double compute = problem.flops() / (matrix ? limits.matrix_flops : limits.f32_flops);
  const double memory = problem.bytes() / limits.read_bandwidth;
  return {std::max(compute, memory), compute >= memory ? "compute" : "memory"};
}

}  // namespace rapt::cli
