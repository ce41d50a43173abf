// cpu.flash_backward: gradients without a score matrix, on vectors of f32.
#include "src/cpu/backward_driver.hpp"
#include "src/cpu/kernels.hpp"

namespace rapt {
namespace {

Support supports(const Problem& problem, const Device& device) {
  return backward_support(problem, device, f32_backward_engine());
}

std::size_t workspace(const Task& task) { return backward_workspace(task, f32_backward_engine()); }

// About six tenths of the FMA rate where pieces keep all threads busy and tiles are full.
Estimate estimate(const Task& task) {
  return backward_estimate(task, f32_backward_engine(), 0.6 * task.device.nominal.f32_flops, 3e-6);
}

std::unique_ptr<const Prepared> prepare(const Task& task) {
  return prepare_backward(task, f32_backward_engine());
}

}  // namespace

const Kernel cpu_flash_backward = {
    .name = "cpu.flash_backward",
    .summary = "scores made anew tile by tile, sums in one order whatever the number of threads",
    .backend = Backend::cpu,
    .operation = Operation::backward,
    .by_name_only = false,
    .supports = supports,
    .configs = one_empty_config,
    .estimate = estimate,
    .workspace = workspace,
    .prepare = prepare,
};

}  // namespace rapt
