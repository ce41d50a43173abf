// Flash backward, whatever engine does the arithmetic.
#pragma once

#include "src/core/kernel.hpp"
#include "src/cpu/backward_engine.hpp"

namespace rapt {

Support backward_support(const Problem& problem, const Device& device,
                         const BackwardEngine& engine);
std::size_t backward_workspace(const Task& task, const BackwardEngine& engine);
// `seconds_per_tile`: of queries against a chunk of keys, beside the products.
Estimate backward_estimate(const Task& task, const BackwardEngine& engine, double flops_per_second,
                           double seconds_per_tile);
std::unique_ptr<const Prepared> prepare_backward(const Task& task, const BackwardEngine& engine);

}  // namespace rapt
