#include "src/emulator/device.hpp"

#include <cstring>
#include <new>

#include "src/core/text.hpp"
#include "src/emulator/launcher.hpp"
#include "src/portable/merge.hpp"

namespace rapt {

namespace gpu {

using emulator::Launcher;

extern template void launch_merge<Launcher<32>>(const MergeParameters&, Where);
extern template void launch_merge<Launcher<64>>(const MergeParameters&, Where);

}  // namespace gpu

namespace {

// A small GPU. Nothing is as fast as this says, but kernels choose their tiles and splits by it.
Device describe(int index) {
  constexpr double clock = 1e9, flops_per_clock = 256;
  Device device;
  device.backend = Backend::emu;
  device.index = index;
  const int wave_size = index == 0 ? 32 : 64;
  device.name = text("GPU emulator, wave ", wave_size);
  device.features = text("wave", wave_size);
  device.multiprocessors = 8;
  device.nominal.f32_flops = clock * device.multiprocessors * flops_per_clock;
  if (wave_size == 32) device.nominal.matrix_flops = 8 * device.nominal.f32_flops;
  device.nominal.read_bandwidth = device.nominal.copy_bandwidth = 100e9;
  device.nominal.memory_bytes = 4.0 * (1 << 30);
  device.nominal.cache_bytes = 4 << 20;
  return device;
}

std::vector<Device> devices_here() { return {describe(0), describe(1)}; }

constexpr std::align_val_t alignment{256};  // as cudaMalloc and hipMalloc give it

void* allocate(const Device& device, std::size_t bytes) {
  const bool possible = static_cast<double>(bytes) <= device.nominal.memory_bytes;
  void* memory = possible ? ::operator new(bytes, alignment, std::nothrow) : nullptr;
  if (!memory)
    throw Error(ErrorCode::out_of_memory,
                text("no memory for ", human_bytes(double(bytes)), " on ", device.to_string()));
  return memory;
}

void release(const Device&, void* memory) noexcept { ::operator delete(memory, alignment); }

void copy(const Device&, void* target, const void* source, std::size_t bytes) {
  std::memcpy(target, source, bytes);
}

void wait(const Device&, void*) {}  // a launch returns when it is done

void launch_merge(const gpu::MergeParameters& parameters, gpu::Where where) {
  if (where.device == 0) return gpu::launch_merge<emulator::Launcher<32>>(parameters, where);
  gpu::launch_merge<emulator::Launcher<64>>(parameters, where);
}

}  // namespace

const BackendOperations emu_backend = {
    .backend = Backend::emu,
    .devices = devices_here,
    .allocate = allocate,
    .release = release,
    .copy_to_device = copy,
    .copy_to_host = copy,
    .wait = wait,
    .merge = gpu::merge_by<launch_merge>,
};

}  // namespace rapt
