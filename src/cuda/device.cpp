#include "src/cuda/device.hpp"

#include <cuda_runtime_api.h>

#include "src/core/text.hpp"
#include "src/cuda/architectures.hpp"
#include "src/cuda/check.hpp"
#include "src/cuda/clock.hpp"
#include "src/cuda/limits.hpp"
#include "src/cuda/ranges.hpp"
#include "src/portable/merge.hpp"
#include "src/portable/reach.hpp"

namespace rapt {

namespace cuda {
struct Launcher;  // launcher.cuh, for nvcc alone
}

extern template void gpu::launch_merge<cuda::Launcher>(const gpu::MergeParameters&, gpu::Where);

namespace {

using cuda::require;
using cuda::UseDevice;

int attribute(cudaDeviceAttr which, int index) {
  int value = 0;
  require(cudaDeviceGetAttribute(&value, which, index), "read a device attribute");
  return value;
}

// Clocks, widths and sizes are the driver's, rates by the clock the data sheets'.
Device describe(int index) {
  cudaDeviceProp properties;
  require(cudaGetDeviceProperties(&properties, index), "describe a device");
  const cuda::Chip chip = {
      .name = "",
      .device_name = properties.name,
      .capability = 10 * properties.major + properties.minor,
      .multiprocessors = properties.multiProcessorCount,
      .clock = 1e3 * attribute(cudaDevAttrClockRate, index),
      .memory_clock = 1e3 * attribute(cudaDevAttrMemoryClockRate, index),
      .bus_bits = attribute(cudaDevAttrGlobalMemoryBusWidth, index),
      .cache_bytes = double(attribute(cudaDevAttrL2CacheSize, index)),
      .memory_bytes = static_cast<double>(properties.totalGlobalMem),
  };
  return cuda::device_of(chip, index);
}

// No driver, or no chip: no devices, and no error.
std::vector<Device> devices_here() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();
    return {};
  }
  // Chips do not change, and asking for their clocks takes most of a millisecond.
  static const std::vector<Device> described = [count] {
    std::vector<Device> result;
    for (int index = 0; index < count; ++index) result.push_back(describe(index));
    return result;
  }();
  return described;
}

std::vector<KnownChip> known_chips() {
  std::vector<KnownChip> result;
  for (const cuda::Chip& chip : cuda::chips())
    result.push_back({chip.name, cuda::device_of(chip, -1)});
  return result;
}

std::string absence() {
  int driver = 0, count = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0) return "no CUDA driver";
  const cudaError_t status = cudaGetDeviceCount(&count);
  cudaGetLastError();
  return status == cudaSuccess ? "" : cudaGetErrorString(status);
}

void* allocate(const Device& device, std::size_t bytes) {
  const UseDevice current(device.index);
  void* memory = nullptr;
  const cudaError_t status = cudaMalloc(&memory, bytes);
  if (status == cudaSuccess) return memory;
  std::size_t left = 0, total = 0;
  const bool known = cudaMemGetInfo(&left, &total) == cudaSuccess;
  require(status, text("allocate ", human_bytes(double(bytes)), " on ", device.to_string(),
                       known ? text(", where ", human_bytes(double(left)), " are free") : ""));
  return nullptr;
}

void release(const Device&, void* memory) noexcept { cudaFree(memory); }

void copy_to_device(const Device& device, void* target, const void* source, std::size_t bytes) {
  const UseDevice current(device.index);
  require(cudaMemcpy(target, source, bytes, cudaMemcpyHostToDevice), "copy to the device");
}

void copy_to_host(const Device& device, void* target, const void* source, std::size_t bytes) {
  const UseDevice current(device.index);
  require(cudaMemcpy(target, source, bytes, cudaMemcpyDeviceToHost), "copy to the host");
}

void wait(const Device& device, void* stream) {
  const UseDevice current(device.index);
  require(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)), "finish the work of a stream");
}

bool reaches(const Device& device, const void* memory) {
  const UseDevice current(device.index);
  cudaPointerAttributes attributes;
  require(cudaPointerGetAttributes(&attributes, memory), "tell where memory lies");
  return attributes.type != cudaMemoryTypeUnregistered && attributes.devicePointer != nullptr;
}

bool captures(const Device& device, void* stream) {
  const UseDevice current(device.index);
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  const cudaError_t status = cudaStreamIsCapturing(static_cast<cudaStream_t>(stream), &capture);
  if (status == cudaErrorStreamCaptureImplicit) {  // the default stream beside one that captures
    cudaGetLastError();
    return true;
  }
  require(status, "tell whether a stream is captured");
  return capture != cudaStreamCaptureStatusNone;
}

}  // namespace

const BackendOperations cuda_backend = {
    .backend = Backend::cuda,
    .devices = devices_here,
    .allocate = allocate,
    .release = release,
    .copy_to_device = copy_to_device,
    .copy_to_host = copy_to_host,
    .wait = wait,
    .merge = gpu::merge_by<gpu::launch_merge<cuda::Launcher>>,
    .known_chips = known_chips,
    .estimates_measured = [](const Device& device) { return gpu::reach_of(device).measured; },
    .absence = absence,
    .clock = cuda::clock_of,
    .measure = cuda::measure,
    .reaches = reaches,
    .captures = captures,
    .begin_range = cuda::begin_range,
    .end_range = cuda::end_range,
};

}  // namespace rapt
