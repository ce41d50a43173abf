// cpu.flash_amx: flash attention in bf16 on AMX tiles, with scores, softmax and sums in f32.
#include "src/cpu/flash_driver.hpp"
#include "src/cpu/kernels.hpp"

namespace rapt {
namespace {

Support supports(const Problem& problem, const Device& device) {
  if (problem.dtype != DType::bf16) return Support::no("it computes in bf16 only");
  if (!device.has("amx_bf16") || !amx_engine())
    return Support::no(
        "this processor has no AMX tiles for bf16, or the system does not grant them");
  return flash_support(problem, device, *amx_engine(), {256, 512});
}

std::vector<Config> configs(const Problem&, const Device&) {
  return {{{{"rows", 128}, {"keys", 512}}},
          {{{"rows", 64}, {"keys", 256}}},
          {{{"rows", 256}, {"keys", 512}}}};
}

// Measured: six tenths of the tile rate in the products; a weight costs as much as 18 FMAs of the
// vector units, packing an element as much as 10.
Estimate estimate(const Task& task) {
  return flash_estimate(task, *amx_engine(), {0.6 * task.device.nominal.matrix_flops, 36, 20});
}

std::size_t workspace(const Task& task) { return flash_workspace(task, *amx_engine()); }

std::unique_ptr<const Prepared> prepare(const Task& task) {
  return prepare_flash(task, *amx_engine());
}

}  // namespace

const Kernel cpu_flash_amx = {
    .name = "cpu.flash_amx",
    .summary = "flash in bf16 on AMX tiles",
    .backend = Backend::cpu,
    .row_invariant = true,
    .by_name_only = false,
    .supports = supports,
    .configs = configs,
    .estimate = estimate,
    .workspace = workspace,
    .prepare = prepare,
};

}  // namespace rapt
