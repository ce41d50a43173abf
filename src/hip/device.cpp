#include "src/hip/device.hpp"

#include "src/core/text.hpp"
#include "src/hip/check.hpp"
#include "src/hip/clock.hpp"
#include "src/hip/limits.hpp"
#include "src/hip/ranges.hpp"
#include "src/hip/runtime.hpp"
#include "src/portable/merge.hpp"

namespace rapt {

namespace hip {
struct Launcher;  // launcher.hpp, for the HIP compiler alone
}

extern template void gpu::launch_merge<hip::Launcher>(const gpu::MergeParameters&, gpu::Where);

namespace {

using hip::require;
using hip::runtime;
using hip::UseDevice;

struct RatesPerClock {
  double f32, matrix;  // flops of one compute unit
};

// From the data sheets: vector FMA lanes × 2, and dense f16 matrix products.
RatesPerClock rates_of(std::string_view architecture) {
  if (architecture.starts_with("gfx94")) return {256, 2048};
  if (architecture.starts_with("gfx90a")) return {128, 1024};
  if (architecture.starts_with("gfx908")) return {128, 1024};
  if (architecture.starts_with("gfx11")) return {256, 512};
  return {128, 0};
}

Device describe(int index) {
  hipDeviceProp_t properties;
  require(runtime().device_properties(&properties, index), "describe a device");
  const std::string_view architecture = properties.gcnArchName;
  const RatesPerClock rates = rates_of(architecture);
  const double clock = 1e3 * properties.clockRate;
  Device device;
  device.backend = Backend::hip;
  device.index = index;
  device.name = properties.name;
  device.features =
      text(architecture.substr(0, architecture.find(':')), " wave", properties.warpSize);
  device.multiprocessors = properties.multiProcessorCount;
  device.nominal.f32_flops = clock * device.multiprocessors * rates.f32;
  device.nominal.matrix_flops = clock * device.multiprocessors * rates.matrix;
  device.nominal.read_bandwidth = device.nominal.copy_bandwidth =
      2e3 * properties.memoryClockRate * properties.memoryBusWidth / 8;  // double data rate
  device.nominal.memory_bytes = static_cast<double>(properties.totalGlobalMem);
  device.nominal.cache_bytes = properties.l2CacheSize;
  return device;
}

// No runtime, no driver, or no chip: no devices, and no error.
std::vector<Device> devices_here() {
  if (!hip::find_runtime()) return {};
  int count = 0;
  if (runtime().device_count(&count) != hipSuccess) {
    static_cast<void>(runtime().last_error());
    return {};
  }
  std::vector<Device> result;
  for (int index = 0; index < count; ++index) result.push_back(describe(index));
  return result;
}

std::string absence() {
  if (!hip::find_runtime()) return hip::runtime_absence();
  int count = 0;
  const hipError_t status = runtime().device_count(&count);
  static_cast<void>(runtime().last_error());
  return status == hipSuccess ? "" : runtime().error_string(status);
}

void* allocate(const Device& device, std::size_t bytes) {
  const UseDevice current(device.index);
  void* memory = nullptr;
  const hipError_t status = runtime().allocate(&memory, bytes);
  if (status == hipSuccess) return memory;
  std::size_t left = 0, total = 0;
  const bool known = runtime().memory_left(&left, &total) == hipSuccess;
  require(status, text("allocate ", human_bytes(double(bytes)), " on ", device.to_string(),
                       known ? text(", where ", human_bytes(double(left)), " are free") : ""));
  return nullptr;
}

void release(const Device&, void* memory) noexcept { static_cast<void>(runtime().release(memory)); }

void copy_to_device(const Device& device, void* target, const void* source, std::size_t bytes) {
  const UseDevice current(device.index);
  require(runtime().copy(target, source, bytes, hipMemcpyHostToDevice), "copy to the device");
}

void copy_to_host(const Device& device, void* target, const void* source, std::size_t bytes) {
  const UseDevice current(device.index);
  require(runtime().copy(target, source, bytes, hipMemcpyDeviceToHost), "copy to the host");
}

void wait(const Device& device, void* stream) {
  const UseDevice current(device.index);
  require(runtime().wait_for_stream(static_cast<hipStream_t>(stream)),
          "finish the work of a stream");
}

// Unlike CUDA, HIP calls an address that it does not know an invalid value.
bool reaches(const Device& device, const void* memory) {
  const UseDevice current(device.index);
  hipPointerAttribute_t attributes;
  const hipError_t status = runtime().pointer_attributes(&attributes, memory);
  if (status == hipErrorInvalidValue) {
    static_cast<void>(runtime().last_error());
    return false;
  }
  require(status, "tell where memory lies");
  return attributes.devicePointer != nullptr;
}

bool captures(const Device& device, void* stream) {
  const UseDevice current(device.index);
  hipStreamCaptureStatus capture = hipStreamCaptureStatusNone;
  const hipError_t status = runtime().is_capturing(static_cast<hipStream_t>(stream), &capture);
  if (status == hipErrorStreamCaptureImplicit) {  // the default stream beside one that captures
    static_cast<void>(runtime().last_error());
    return true;
  }
  require(status, "tell whether a stream is captured");
  return capture != hipStreamCaptureStatusNone;
}

}  // namespace

const BackendOperations hip_backend = {
    .backend = Backend::hip,
    .devices = devices_here,
    .allocate = allocate,
    .release = release,
    .copy_to_device = copy_to_device,
    .copy_to_host = copy_to_host,
    .wait = wait,
    .merge = gpu::merge_by<gpu::launch_merge<hip::Launcher>>,
    .absence = absence,
    .clock = hip::clock_of,
    .measure = hip::measure,
    .reaches = reaches,
    .captures = captures,
    .begin_range = hip::begin_range,
    .end_range = hip::end_range,
};

}  // namespace rapt
