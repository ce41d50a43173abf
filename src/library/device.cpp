// Devices by name and number, and Buffer, their memory.
#include <algorithm>
#include <utility>

#include "src/core/fault.hpp"
#include "src/core/text.hpp"
#include "src/cpu/device.hpp"
#include "src/library/registry.hpp"

namespace rapt {
namespace {

Device numbered_device(Backend backend, std::int32_t index) {
  const BackendOperations& operations = find_backend(backend);
  const std::vector<Device> all = operations.devices();
  if (index >= 0 && static_cast<std::size_t>(index) < all.size())
    return all[static_cast<std::size_t>(index)];
  const std::string reason = operations.absence ? operations.absence() : "";
  throw Error(ErrorCode::not_found,
              text("there is no device ", name(backend), ":", index, "; this machine has ",
                   all.size(), " ", name(backend), " device", all.size() == 1 ? "" : "s",
                   reason.empty() ? "" : text(" (", reason, ")"), "; the CPU is always there"));
}

}  // namespace

std::string_view name(Backend backend) {
  switch (backend) {
    case Backend::cpu: return "cpu";
    case Backend::cuda: return "cuda";
    case Backend::hip: return "hip";
    case Backend::emu: return "emu";
  }
  return "unknown";
}

Device Device::cpu(std::int32_t threads) { return cpu_device(threads); }
Device Device::cuda(std::int32_t index) { return numbered_device(Backend::cuda, index); }
Device Device::hip(std::int32_t index) { return numbered_device(Backend::hip, index); }

Device Device::parse(std::string_view text) {
  const std::string_view backend = text.substr(0, text.find(':'));
  const std::string_view digits =
      backend.size() < text.size() ? text.substr(backend.size() + 1) : "0";
  const auto index = parse_number<std::int32_t>(digits);
  if (text == "cpu") return cpu();
  if (index && backend == "cuda") return cuda(*index);
  if (index && backend == "hip") return hip(*index);
  if (index && backend == "emu") return numbered_device(Backend::emu, *index);
  fault("'", text, "' is not a device; write cpu, cuda:0 or hip:0");
}

std::string Device::to_string() const {
  const std::string_view kind = rapt::name(backend);
  if (index < 0) return name;  // a chip that is not here
  return backend == Backend::cpu ? std::string(kind) : text(kind, ":", index);
}

bool Device::has(std::string_view feature) const {
  return text(" ", features, " ").find(text(" ", feature, " ")) != std::string::npos;
}

std::vector<Device> devices() {
  std::vector<Device> result;
  for (const BackendOperations* backend : registered_backends())
    std::ranges::move(backend->devices(), std::back_inserter(result));
  return result;
}

Buffer::Buffer(const Device& device, std::size_t bytes) : device_(device), size_(bytes) {
  if (bytes > 0) data_ = find_backend(device.backend).allocate(device, bytes);
}

Buffer::~Buffer() {
  if (data_) find_backend(device_.backend).release(device_, data_);
}

Buffer::Buffer(Buffer&& other) noexcept
    : device_(std::move(other.device_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void Buffer::copy_from_host(const void* source, std::size_t bytes) {
  if (bytes > size_) {
    fault("cannot copy ", bytes, " bytes into a buffer of ", size_);
  }
  if (bytes > 0) find_backend(device_.backend).copy_to_device(device_, data_, source, bytes);
}

void Buffer::copy_to_host(void* target, std::size_t bytes) const {
  if (bytes > size_) {
    fault("cannot copy ", bytes, " bytes out of a buffer of ", size_);
  }
  if (bytes > 0) find_backend(device_.backend).copy_to_host(device_, target, data_, bytes);
}

}  // namespace rapt
