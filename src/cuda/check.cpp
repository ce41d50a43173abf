#include "src/cuda/check.hpp"

#include <atomic>

#include "rapt/rapt.hpp"
#include "src/core/text.hpp"

namespace rapt::cuda {

void require(cudaError_t status, std::string_view what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // forget it: the next call must not report this one
  const ErrorCode code =
      status == cudaErrorMemoryAllocation ? ErrorCode::out_of_memory : ErrorCode::device_failure;
  throw Error(code, text("CUDA could not ", what, ": ", cudaGetErrorString(status), " (",
                         cudaGetErrorName(status), ")"));
}

bool has_early_launch(int index) {
  constexpr int most_devices = 64;
  static std::atomic<int> known[most_devices] = {};  // the compute capability; 0: not asked yet
  int major = index < most_devices ? known[index].load(std::memory_order_relaxed) : 0;
  if (major == 0) {
    require(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index),
            "read a device attribute");
    if (index < most_devices) known[index].store(major, std::memory_order_relaxed);
  }
  return major >= 9;
}

namespace {

thread_local int used = -1;  // by the innermost UseDevice of the thread

}  // namespace

UseDevice::UseDevice(int index) : index_(index), outer_(used) {
  if (outer_ == index_) return;
  require(cudaGetDevice(&previous_), "name the current device");
  if (previous_ != index_) require(cudaSetDevice(index_), text("use cuda:", index_));
  used = index_;
}

UseDevice::~UseDevice() {
  if (outer_ == index_) return;
  used = outer_;
  if (previous_ != index_) static_cast<void>(cudaSetDevice(previous_));
}

}  // namespace rapt::cuda
