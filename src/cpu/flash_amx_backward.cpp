// cpu.flash_amx_backward: gradients of bf16 without a score matrix, on AMX tiles; P and dX are
// rounded to bf16, all sums are f32.
#include "src/cpu/backward_driver.hpp"
#include "src/cpu/kernels.hpp"

namespace rapt {
namespace {

Support supports(const Problem& problem, const Device& device) {
  if (problem.dtype != DType::bf16) return Support::no("it computes in bf16 only");
  if (problem.out_dtype != DType::bf16)
    return Support::no(
        "out and dout are f32, and it multiplies bf16 only; cpu.flash_backward does");
  if (!device.has("amx_bf16") || !amx_backward_engine())
    return Support::no(
        "this processor has no AMX tiles for bf16, or the system does not grant them");
  return backward_support(problem, device, *amx_backward_engine());
}

std::size_t workspace(const Task& task) { return backward_workspace(task, *amx_backward_engine()); }

// Counted, not measured: four tenths of the tile rate, for weights take about as long as the
// products of 64 dims, and run beside most of them.
Estimate estimate(const Task& task) {
  return backward_estimate(task, *amx_backward_engine(), 0.4 * task.device.nominal.matrix_flops,
                           10e-6);
}

std::unique_ptr<const Prepared> prepare(const Task& task) {
  return prepare_backward(task, *amx_backward_engine());
}

}  // namespace

const Kernel cpu_flash_amx_backward = {
    .name = "cpu.flash_amx_backward",
    .summary = "flash backward in bf16 on AMX tiles",
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
