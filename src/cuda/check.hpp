// Every CUDA call goes through require(); a device is current for as long as a UseDevice lives.
#pragma once

#include <string_view>

#include <cuda_runtime_api.h>

namespace rapt::cuda {

// Throws rapt::Error, "CUDA could not <what>: ...", unless the status is a success.
void require(cudaError_t status, std::string_view what);

// Makes a device the thread's current one, and the previous one again at the end: the caller's own
// CUDA code does not notice. Inside another one of the same device it costs nothing.
class UseDevice {
 public:
  explicit UseDevice(int index);
  ~UseDevice();
  UseDevice(const UseDevice&) = delete;
  UseDevice& operator=(const UseDevice&) = delete;

 private:
  int previous_ = 0, index_;
  int outer_;  // what the one around this uses; −1: there is none
};

// Whether a kernel may be brought onto the chip before the one it follows has ended: since Hopper.
bool has_early_launch(int index);

}  // namespace rapt::cuda
