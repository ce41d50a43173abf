// emu.flash_mma_backward, for waves of 32 lanes.
#include "src/portable/flash_mma_backward.hpp"

#include "src/emulator/kernels.hpp"
#include "src/emulator/launcher.hpp"
#include "src/gpu/flash_mma_backward/launch.hpp"

namespace rapt {

using Launcher = emulator::Launcher<32>;
extern template void gpu::launch_before_gradients<Launcher>(const gpu::FlashBackwardParameters&,
                                                            gpu::Where);
extern template void gpu::launch_other_gradients<Launcher>(const gpu::FlashBackwardParameters&,
                                                           gpu::Where);

namespace {

using namespace gpu::flash_mma_backward;

Support supports_in_emulator(const Problem& problem, const Device& device) {
  if (device.index != 0)
    return Support::no("it needs waves of 32 lanes, which emu:0 has; this is " +
                       device.to_string() + ", with 64");
  return supports(problem, device);
}

void launch_tiles(const TileConfig& config, const gpu::FlashBackwardParameters& parameters,
                  gpu::Where where) {
  gpu::launch_before_gradients<Launcher>(parameters, where);
  with_tiles(config.mma_kind, config.dim, config.score_mod,
             [&]<TileConfig tiles>() { launch<Launcher, tiles>(parameters, where); });
  gpu::launch_other_gradients<Launcher>(parameters, where);
}

}  // namespace

constexpr Kernel emu_flash_mma_backward = {
    .name = "emu.flash_mma_backward",
    .summary = summary,
    .backend = Backend::emu,
    .operation = Operation::backward,
    .by_name_only = false,
    .supports = supports_in_emulator,
    .configs = one_empty_config,
    .estimate = estimate,
    .workspace = workspace,
    .prepare = [](const Task& task) { return prepare(launch_tiles, task); },
};

}  // namespace rapt
