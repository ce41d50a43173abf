// emu.flash_mma, for waves of 32 lanes. Of tiles that are compiled for dot products alone and for
// any score, the latter serve both: twice the kernels would take twice as long to compile.
#include "src/portable/flash_mma.hpp"

#include "src/emulator/kernels.hpp"
#include "src/emulator/launcher.hpp"
#include "src/gpu/flash_mma/launch.hpp"
#include "src/gpu/split_kv.hpp"

namespace rapt {
namespace {

using namespace gpu::flash_mma;
using Launcher = emulator::Launcher<32>;

Support supports_in_emulator(const Problem& problem, const Device& device) {
  if (device.index != 0)
    return Support::no("it needs waves of 32 lanes, which emu:0 has; this is " +
                       device.to_string() + ", with 64");
  return supports(problem, device);
}

void launch_tiles(TileConfig config, const Parameters& parameters, gpu::Where where) {
  config.score_mod = true;
  with_compiled_tiles(config, [&]<TileConfig tiles>() {
    if constexpr (tiles.score_mod) launch<Launcher, tiles>(parameters, where);
  });
  if (parameters.chunks.value > 1) gpu::launch_split_kv_combine<Launcher>(parameters, where);
}

}  // namespace

constexpr Kernel emu_flash_mma = {
    .name = "emu.flash_mma",
    .summary = summary,
    .backend = Backend::emu,
    .by_name_only = false,
    .supports = supports_in_emulator,
    .configs = configs,
    .estimate = estimate,
    .workspace = workspace,
    .prepare = [](const Task& task) { return prepare(launch_tiles, task); },
};

}  // namespace rapt
