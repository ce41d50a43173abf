// Every HIP call goes through require(); a device is current for as long as a UseDevice lives.
#pragma once

#include <hip/hip_runtime_api.h>

#include <string_view>

namespace rapt::hip {

// Throws rapt::Error, "HIP could not <what>: ...", unless the status is a success.
void require(hipError_t status, std::string_view what);

// Makes a device the thread's current one, and the previous one again at the end: the caller's own
// HIP code does not notice.
class UseDevice {
 public:
  explicit UseDevice(int index);
  ~UseDevice();
  UseDevice(const UseDevice&) = delete;
  UseDevice& operator=(const UseDevice&) = delete;

 private:
  int previous_ = 0, index_;
};

}  // namespace rapt::hip
