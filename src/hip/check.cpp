#include "src/hip/check.hpp"

#include "rapt/rapt.hpp"
#include "src/core/text.hpp"
#include "src/hip/runtime.hpp"

namespace rapt::hip {

void require(hipError_t status, std::string_view what) {
  if (status == hipSuccess) return;
  static_cast<void>(runtime().last_error());  // forget it: the next call must not report this one
  const ErrorCode code =
      status == hipErrorOutOfMemory ? ErrorCode::out_of_memory : ErrorCode::device_failure;
  throw Error(code, text("HIP could not ", what, ": ", runtime().error_string(status), " (",
                         runtime().error_name(status), ")"));
}

UseDevice::UseDevice(int index) : index_(index) {
  require(runtime().get_device(&previous_), "name the current device");
  if (previous_ != index_) require(runtime().set_device(index_), text("use hip:", index_));
}

UseDevice::~UseDevice() {
  if (previous_ != index_) static_cast<void>(runtime().set_device(previous_));
}

}  // namespace rapt::hip
