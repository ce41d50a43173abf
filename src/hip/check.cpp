#include "src/hip/check.hpp"

#include "rapt/rapt.hpp"
#include "src/core/text.hpp"

namespace rapt::hip {

void require(hipError_t status, std::string_view what) {
  if (status == hipSuccess) return;
  static_cast<void>(hipGetLastError());  // forget it: the next call must not report this one
  const ErrorCode code =
      status == hipErrorOutOfMemory ? ErrorCode::out_of_memory : ErrorCode::device_failure;
  throw Error(code, text("HIP could not ", what, ": ", hipGetErrorString(status), " (",
                         hipGetErrorName(status), ")"));
}

UseDevice::UseDevice(int index) : index_(index) {
  require(hipGetDevice(&previous_), "name the current device");
  if (previous_ != index_) require(hipSetDevice(index_), text("use hip:", index_));
}

UseDevice::~UseDevice() {
  if (previous_ != index_) static_cast<void>(hipSetDevice(previous_));
}

}  // namespace rapt::hip
