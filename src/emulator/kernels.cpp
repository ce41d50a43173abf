// Binds the portable kernels to their names in the emulator. A new one needs its line at the end of
// this file, the same in kernels.hpp and library/registry.cpp. A new launch of Launches is compiled
// right here; to have it compiled apart, give it a file like tiny_kv.cpp and its lines of `extern
// template`.
#include "src/emulator/kernels.hpp"

#include "src/emulator/launcher.hpp"
#include "src/portable/portable_kernels.hpp"

namespace rapt {

namespace gpu {

using emulator::Launcher;

extern template void launch_naive<Launcher<32>>(const ScoreMatrix&, Where);
extern template void launch_naive<Launcher<64>>(const ScoreMatrix&, Where);
extern template void launch_tiled<Launcher<32>>(const ScoreMatrix&, TiledTiles, Where);
extern template void launch_tiled<Launcher<64>>(const ScoreMatrix&, TiledTiles, Where);
extern template void launch_flash<Launcher<32>>(const FlashParameters&, Where);
extern template void launch_flash<Launcher<64>>(const FlashParameters&, Where);
extern template void launch_split_kv<Launcher<32>>(const SplitKvParameters&, Where);
extern template void launch_split_kv<Launcher<64>>(const SplitKvParameters&, Where);
extern template void launch_tiny_kv<Launcher<32>>(const TinyKvParameters&, Where);
extern template void launch_tiny_kv<Launcher<64>>(const TinyKvParameters&, Where);
extern template void launch_flash_backward<Launcher<32>>(const FlashBackwardParameters&, Where);
extern template void launch_flash_backward<Launcher<64>>(const FlashBackwardParameters&, Where);
extern template void launch_naive_backward<Launcher<32>>(const NaiveBackwardParameters&, Where);
extern template void launch_naive_backward<Launcher<64>>(const NaiveBackwardParameters&, Where);

}  // namespace gpu

namespace {

constexpr gpu::Launches with_wave_32 = gpu::launches_of<emulator::Launcher<32>>(Backend::emu);
constexpr gpu::Launches with_wave_64 = gpu::launches_of<emulator::Launcher<64>>(Backend::emu);

// One kernel for both devices.
template <class Host>
constexpr Kernel emulated(std::string_view name) {
  Kernel kernel = gpu::kernel_named<with_wave_32, Host>(name);
  kernel.prepare = [](const Task& task) {
    return Host::prepare(task.device.index == 0 ? with_wave_32 : with_wave_64, task);
  };
  return kernel;
}

}  // namespace

constexpr Kernel emu_naive = emulated<gpu::NaiveHost>("emu.naive");
constexpr Kernel emu_shared = emulated<gpu::SharedHost>("emu.shared");
constexpr Kernel emu_flash = emulated<gpu::FlashHost>("emu.flash");
constexpr Kernel emu_flash_wide = emulated<gpu::FlashWideHost>("emu.flash_wide");
constexpr Kernel emu_split_kv = emulated<gpu::SplitKvHost>("emu.split_kv");
constexpr Kernel emu_tiny_kv = emulated<gpu::TinyKvHost>("emu.tiny_kv");
constexpr Kernel emu_naive_backward = emulated<gpu::NaiveBackwardHost>("emu.naive_backward");
constexpr Kernel emu_flash_backward = emulated<gpu::FlashBackwardHost>("emu.flash_backward");

}  // namespace rapt
