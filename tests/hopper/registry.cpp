// The list of kernels for the tests of Hopper's kernels on machines without a GPU: the same
// kernels, hosts included, over a model of the chip (machine.hpp). To plans they are kernels of the
// emulator.
#include "src/library/registry.hpp"

#include "src/cuda/kernels.hpp"
#include "src/emulator/kernels.hpp"
#include "src/oracle/oracle.hpp"
#include "src/oracle/pair_gradients.hpp"

namespace rapt {
namespace {

// As the kernels' hosts see the chip: few multiprocessors, so that each has several work tiles.
const Device& hopper() {
  static const Device device = [] {
    Device chip;
    chip.backend = Backend::cuda;
    chip.name = "model of Hopper";
    chip.features = "sm_90";
    chip.multiprocessors = 6;
    chip.nominal.f32_flops = 1e12;
    chip.nominal.matrix_flops = 1e13;
    chip.nominal.read_bandwidth = chip.nominal.copy_bandwidth = 1e12;
    chip.nominal.memory_bytes = 4e9;
    chip.nominal.cache_bytes = 4 << 20;
    return chip;
  }();
  return device;
}

Task on_hopper(const Task& task) { return {task.problem, hopper(), task.config, task.executor}; }

template <const Kernel& of_hopper>
constexpr Kernel modelled(std::string_view name, Operation operation) {
  return {
      .name = name,
      .summary = "a kernel for Hopper on a model of the chip",
      .backend = Backend::emu,
      .operation = operation,
      .by_name_only = false,
      .supports =
          [](const Problem& problem, const Device& device) {
            if (device.index > 0) return Support::no("the model is emu:0");
            return of_hopper.supports(problem, hopper());
          },
      .configs = one_empty_config,
      .estimate = [](const Task& task) { return of_hopper.estimate(on_hopper(task)); },
      .workspace = [](const Task& task) { return of_hopper.workspace(on_hopper(task)); },
      .prepare = [](const Task& task) { return of_hopper.prepare(on_hopper(task)); },
  };
}

constexpr Kernel flash_wgmma = modelled<cuda_flash_wgmma>("emu.flash_wgmma", Operation::forward);
constexpr Kernel flash_wgmma_f32 =
    modelled<cuda_flash_wgmma_f32>("emu.flash_wgmma_f32", Operation::forward);
constexpr Kernel flash_wgmma_backward =
    modelled<cuda_flash_wgmma_backward>("emu.flash_wgmma_backward", Operation::backward);
constexpr Kernel flash_wgmma_backward_wide =
    modelled<cuda_flash_wgmma_backward_wide>("emu.flash_wgmma_backward_wide", Operation::backward);

}  // namespace

std::span<const Kernel* const> registered_kernels() {
  static constexpr const Kernel* list[] = {&cpu_oracle,           &cpu_oracle_backward,
                                           &flash_wgmma,          &flash_wgmma_f32,
                                           &flash_wgmma_backward, &flash_wgmma_backward_wide};
  return list;
}

}  // namespace rapt
