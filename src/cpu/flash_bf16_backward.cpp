// Gradients of bf16 without a score matrix; P and dX are rounded to bf16, all sums are f32:
// cpu.flash_amx_backward on AMX tiles, cpu.flash_bf16_backward on AVX-512's dot products of bf16.
#include "src/cpu/backward_driver.hpp"
#include "src/cpu/kernels.hpp"

namespace rapt {
namespace {

template <const BackwardEngine* (*engine)()>
Support supports_in_bf16(const Problem& problem, const Device& device, std::string_view feature,
                         const char* missing) {
  if (problem.dtype != DType::bf16) return Support::no("it computes in bf16 only");
  if (problem.out_dtype != DType::bf16)
    return Support::no(
        "out and dout are f32, and it multiplies bf16 only; cpu.flash_backward does");
  if (!device.has(feature) || !device.has("avx512bf16") || !engine()) return Support::no(missing);
  return backward_support(problem, device, *engine());
}

template <const BackwardEngine* (*engine)()>
constexpr Kernel flash_backward_on(std::string_view name, std::string_view summary,
                                   Support (*supports)(const Problem&, const Device&),
                                   Estimate (*estimate)(const Task&)) {
  return {
      .name = name,
      .summary = summary,
      .backend = Backend::cpu,
      .operation = Operation::backward,
      .by_name_only = false,
      .supports = supports,
      .configs = one_empty_config,
      .estimate = estimate,
      .workspace = [](const Task& task) { return backward_workspace(task, *engine()); },
      .prepare = [](const Task& task) { return prepare_backward(task, *engine()); },
  };
}

Support supports_tiles(const Problem& problem, const Device& device) {
  return supports_in_bf16<amx_backward_engine>(
      problem, device, "amx_bf16",
      "this processor has no AMX tiles for bf16, or the system does not grant them");
}

// Counted, not measured: four tenths of the tile rate, for weights take about as long as the
// products of 64 dims, and run beside most of them.
Estimate estimate_tiles(const Task& task) {
  return backward_estimate(task, *amx_backward_engine(), 0.4 * task.device.nominal.matrix_flops,
                           10e-6);
}

Support supports_dots(const Problem& problem, const Device& device) {
  return supports_in_bf16<bf16_backward_engine>(
      problem, device, "avx512bf16", "this processor has no dot products of bf16 (AVX512-BF16)");
}

// Measured on Zen 5: 1.2 to 1.5 times the FMA rate, weights included.
Estimate estimate_dots(const Task& task) {
  return backward_estimate(task, *bf16_backward_engine(), 1.2 * task.device.nominal.f32_flops,
                           6e-6);
}

}  // namespace

const Kernel cpu_flash_amx_backward = flash_backward_on<amx_backward_engine>(
    "cpu.flash_amx_backward", "flash backward in bf16 on AMX tiles", supports_tiles,
    estimate_tiles);
const Kernel cpu_flash_bf16_backward = flash_backward_on<bf16_backward_engine>(
    "cpu.flash_bf16_backward", "flash backward in bf16 on AVX-512's dot products", supports_dots,
    estimate_dots);

}  // namespace rapt
