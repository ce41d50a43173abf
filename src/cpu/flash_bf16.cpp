// Flash attention in bf16, with scores, softmax and sums in f32: cpu.flash_amx on AMX tiles,
// cpu.flash_bf16 on AVX-512's dot products of bf16.
#include "src/cpu/flash_driver.hpp"
#include "src/cpu/kernels.hpp"

namespace rapt {
namespace {

template <const Engine* (*engine)()>
Support supports_in_bf16(const Problem& problem, const Device& device, std::string_view feature,
                         const char* missing) {
  if (problem.dtype != DType::bf16) return Support::no("it computes in bf16 only");
  if (!device.has(feature) || !device.has("avx512bf16") || !engine()) return Support::no(missing);
  return flash_support(problem, device, *engine(), {256, 512});
}

std::vector<Config> configs(const Problem&, const Device&) {
  return {{{{"rows", 128}, {"keys", 512}}},
          {{{"rows", 64}, {"keys", 256}}},
          {{{"rows", 256}, {"keys", 512}}}};
}

template <const Engine* (*engine)()>
constexpr Kernel flash_on(std::string_view name, std::string_view summary,
                          Support (*supports)(const Problem&, const Device&),
                          Estimate (*estimate)(const Task&)) {
  return {
      .name = name,
      .summary = summary,
      .backend = Backend::cpu,
      .row_invariant = true,
      .by_name_only = false,
      .supports = supports,
      .configs = configs,
      .estimate = estimate,
      .workspace = [](const Task& task) { return flash_workspace(task, *engine()); },
      .prepare = [](const Task& task) { return prepare_flash(task, *engine()); },
  };
}

Support supports_tiles(const Problem& problem, const Device& device) {
  return supports_in_bf16<amx_engine>(
      problem, device, "amx_bf16",
      "this processor has no AMX tiles for bf16, or the system does not grant them");
}

// Measured: six tenths of the tile rate in the products; a weight costs as much as 18 FMAs of the
// vector units, packing an element as much as 10.
Estimate estimate_tiles(const Task& task) {
  return flash_estimate(task, *amx_engine(), {0.6 * task.device.nominal.matrix_flops, 36, 20});
}

Support supports_dots(const Problem& problem, const Device& device) {
  return supports_in_bf16<bf16_engine>(problem, device, "avx512bf16",
                                       "this processor has no dot products of bf16 (AVX512-BF16)");
}

// Measured on Zen 5: nine tenths of twice the FMA rate in the products; softmax and packing are
// AMX's.
Estimate estimate_dots(const Task& task) {
  return flash_estimate(task, *bf16_engine(), {1.8 * task.device.nominal.f32_flops, 36, 20});
}

}  // namespace

const Kernel cpu_flash_amx = flash_on<amx_engine>("cpu.flash_amx", "flash in bf16 on AMX tiles",
                                                  supports_tiles, estimate_tiles);
const Kernel cpu_flash_bf16 = flash_on<bf16_engine>(
    "cpu.flash_bf16", "flash in bf16 on AVX-512's dot products", supports_dots, estimate_dots);

}  // namespace rapt
