// cpu.flash: online softmax over tiles of keys, no score matrix, on the f32 matrix engine.
#include "src/cpu/flash_driver.hpp"
#include "src/cpu/kernels.hpp"

namespace rapt {
namespace {

constexpr FlashTiles largest_tiles = {192, 512};

Support supports(const Problem& problem, const Device& device) {
  return flash_support(problem, device, f32_engine(), largest_tiles);
}

std::vector<Config> configs(const Problem&, const Device&) {
  return {{{{"rows", 96}, {"keys", 256}}},
          {{{"rows", 48}, {"keys", 128}}},
          {{{"rows", 192}, {"keys", 512}}}};
}

// Measured: nine tenths of the FMA rate in the products; a weight costs as much as 24 FMAs, packing
// an element as much as 14.
Estimate estimate(const Task& task) {
  return flash_estimate(task, f32_engine(), {0.9 * task.device.nominal.f32_flops, 48, 28});
}

std::size_t workspace(const Task& task) { return flash_workspace(task, f32_engine()); }

std::unique_ptr<const Prepared> prepare(const Task& task) {
  return prepare_flash(task, f32_engine());
}

}  // namespace

const Kernel cpu_flash = {
    .name = "cpu.flash",
    .summary = "online softmax over packed tiles, no score matrix",
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
