#include "src/hip/device.hpp"

#include <hip/hip_runtime_api.h>

#include "src/core/text.hpp"

namespace rapt {
namespace {

// Every HIP call goes through here.
void require(hipError_t status, std::string_view what) {
  if (status == hipSuccess) return;
  static_cast<void>(hipGetLastError());  // forget it: the next call must not report this one
  const ErrorCode code =
      status == hipErrorOutOfMemory ? ErrorCode::out_of_memory : ErrorCode::device_failure;
  throw Error(code, text("HIP could not ", what, ": ", hipGetErrorString(status), " (",
                         hipGetErrorName(status), ")"));
}

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
  require(hipGetDeviceProperties(&properties, index), "describe a device");
  const std::string_view architecture = properties.gcnArchName;
  const RatesPerClock rates = rates_of(architecture);
  const double clock = 1e3 * properties.clockRate;
  Device device;
  device.backend = Backend::hip;
  device.index = index;
  device.name = properties.name;
  device.features =
      text(architecture.substr(0, architecture.find(':')), " wave", properties.warpSize);
  device.threads = properties.multiProcessorCount;
  device.nominal.f32_flops = clock * device.threads * rates.f32;
  device.nominal.matrix_flops = clock * device.threads * rates.matrix;
  device.nominal.read_bandwidth = device.nominal.copy_bandwidth =
      2e3 * properties.memoryClockRate * properties.memoryBusWidth / 8;  // double data rate
  device.nominal.memory_bytes = static_cast<double>(properties.totalGlobalMem);
  device.nominal.cache_bytes = properties.l2CacheSize;
  return device;
}

// No driver, or no chip: no devices, and no error.
std::vector<Device> devices_here() {
  int count = 0;
  if (hipGetDeviceCount(&count) != hipSuccess) {
    static_cast<void>(hipGetLastError());
    return {};
  }
  std::vector<Device> result;
  for (int index = 0; index < count; ++index) result.push_back(describe(index));
  return result;
}

// Makes a device the thread's current one, and the previous one again at the end: the caller's own
// HIP code does not notice.
class UseDevice {
 public:
  explicit UseDevice(const Device& device) {
    require(hipGetDevice(&previous_), "name the current device");
    require(hipSetDevice(device.index), text("use ", device.to_string()));
  }
  ~UseDevice() { static_cast<void>(hipSetDevice(previous_)); }
  UseDevice(const UseDevice&) = delete;
  UseDevice& operator=(const UseDevice&) = delete;

 private:
  int previous_ = 0;
};

void* allocate(const Device& device, std::size_t bytes) {
  const UseDevice current(device);
  void* memory = nullptr;
  require(hipMalloc(&memory, bytes),
          text("allocate ", human_bytes(double(bytes)), " on ", device.to_string()));
  return memory;
}

void release(const Device&, void* memory) noexcept { static_cast<void>(hipFree(memory)); }

void copy_to_device(const Device& device, void* target, const void* source, std::size_t bytes) {
  const UseDevice current(device);
  require(hipMemcpy(target, source, bytes, hipMemcpyHostToDevice), "copy to the device");
}

void copy_to_host(const Device& device, void* target, const void* source, std::size_t bytes) {
  const UseDevice current(device);
  require(hipMemcpy(target, source, bytes, hipMemcpyDeviceToHost), "copy to the host");
}

void wait(const Device& device, void* stream) {
  const UseDevice current(device);
  require(hipStreamSynchronize(static_cast<hipStream_t>(stream)), "finish the work of a stream");
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
};

}  // namespace rapt
