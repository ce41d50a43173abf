// The HIP runtime, loaded when an AMD GPU is first asked for: rapt links none of it, so that one
// library serves machines with and without it.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <string>

namespace rapt::hip {

// The functions of the runtime that rapt calls.
struct Runtime {
  decltype(&hipGetErrorName) error_name;
  decltype(&hipGetErrorString) error_string;
  decltype(&hipGetLastError) last_error;

  decltype(&hipGetDeviceCount) device_count;
  decltype(&hipGetDeviceProperties) device_properties;
  decltype(&hipGetDevice) get_device;
  decltype(&hipSetDevice) set_device;

  hipError_t (*allocate)(void** memory, std::size_t bytes);  // the header overloads hipMalloc
  decltype(&hipFree) release;
  decltype(&hipMemGetInfo) memory_left;
  decltype(&hipMemcpy) copy;
  decltype(&hipMemsetAsync) fill;
  decltype(&hipPointerGetAttributes) pointer_attributes;

  decltype(&hipStreamCreate) create_stream;
  decltype(&hipStreamDestroy) destroy_stream;
  decltype(&hipStreamSynchronize) wait_for_stream;
  decltype(&hipStreamIsCapturing) is_capturing;
  decltype(&hipStreamBeginCapture) begin_capture;
  decltype(&hipStreamEndCapture) end_capture;

  decltype(&hipEventCreate) create_event;
  decltype(&hipEventDestroy) destroy_event;
  decltype(&hipEventRecord) record;
  decltype(&hipEventSynchronize) wait_for_event;
  decltype(&hipEventElapsedTime) milliseconds_between;

  decltype(&hipGraphInstantiate) instantiate;
  decltype(&hipGraphLaunch) launch_graph;
  decltype(&hipGraphDestroy) destroy_graph;
  decltype(&hipGraphExecDestroy) destroy_replayable;

  decltype(&hipLaunchKernel) launch_kernel;
};

// Null where there is no runtime; runtime_absence() says so in a sentence. The first call loads it,
// which may take a moment, and hands it the kernels.
const Runtime* find_runtime();
std::string runtime_absence();

// Throws Error with that sentence where there is none.
const Runtime& runtime();

}  // namespace rapt::hip
