// A HIP runtime with one device that computes nothing: its memory is the host's, and a launch says
// the kernel's name on stderr. Shows, where there is no AMD GPU, that rapt loads the runtime that
// is there and hands it its kernels (test_runtime.py).
#include <hip/hip_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

namespace {

std::map<const void*, std::string>& kernels() {
  static std::map<const void*, std::string> list;
  return list;
}

}  // namespace

extern "C" {

void** __hipRegisterFatBinary(const void* code) {
  return reinterpret_cast<void**>(const_cast<void*>(code));
}
void __hipRegisterFunction(void**, const void* entry, const char* name, const char*, unsigned,
                           void*, void*, void*, void*, int*) {
  kernels()[entry] = name;
}
hipError_t hipLaunchKernel(const void* entry, dim3, dim3, void**, size_t, hipStream_t) {
  if (!kernels().count(entry)) return hipErrorInvalidDeviceFunction;
  std::fprintf(stderr, "launched %s\n", kernels()[entry].c_str());
  return hipSuccess;
}

const char* hipGetErrorName(hipError_t) { return "a fake error"; }
const char* hipGetErrorString(hipError_t) { return "a fake error"; }
hipError_t hipGetLastError() { return hipSuccess; }

hipError_t hipGetDeviceCount(int* count) {
  *count = 1;
  return hipSuccess;
}
hipError_t hipGetDeviceProperties(hipDeviceProp_t* properties, int) {
  std::memset(properties, 0, sizeof *properties);
  std::strcpy(properties->name, "Fake");
  std::strcpy(properties->gcnArchName, "gfx90a:sramecc+");
  properties->warpSize = 64;
  properties->multiProcessorCount = 104;
  properties->clockRate = 1700000;
  properties->memoryClockRate = 1600000;
  properties->memoryBusWidth = 4096;
  properties->totalGlobalMem = size_t{1} << 36;
  properties->l2CacheSize = 8 << 20;
  return hipSuccess;
}
hipError_t hipGetDevice(int* index) {
  *index = 0;
  return hipSuccess;
}
hipError_t hipSetDevice(int) { return hipSuccess; }

hipError_t hipMalloc(void** memory, size_t bytes) {
  *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  return hipSuccess;
}
hipError_t hipFree(void* memory) {
  std::free(memory);
  return hipSuccess;
}
hipError_t hipMemGetInfo(size_t* left, size_t* total) {
  *left = *total = size_t{1} << 36;
  return hipSuccess;
}
hipError_t hipMemcpy(void* target, const void* source, size_t bytes, hipMemcpyKind) {
  std::memcpy(target, source, bytes);
  return hipSuccess;
}
hipError_t hipMemsetAsync(void* target, int value, size_t bytes, hipStream_t) {
  std::memset(target, value, bytes);
  return hipSuccess;
}
hipError_t hipPointerGetAttributes(hipPointerAttribute_t* attributes, const void* memory) {
  std::memset(attributes, 0, sizeof *attributes);
  attributes->devicePointer = const_cast<void*>(memory);
  return hipSuccess;
}

hipError_t hipStreamCreate(hipStream_t*) { return hipSuccess; }
hipError_t hipStreamDestroy(hipStream_t) { return hipSuccess; }
hipError_t hipStreamSynchronize(hipStream_t) { return hipSuccess; }
hipError_t hipStreamIsCapturing(hipStream_t, hipStreamCaptureStatus* status) {
  *status = hipStreamCaptureStatusNone;
  return hipSuccess;
}
hipError_t hipStreamBeginCapture(hipStream_t, hipStreamCaptureMode) { return hipSuccess; }
hipError_t hipStreamEndCapture(hipStream_t, hipGraph_t*) { return hipSuccess; }

hipError_t hipEventCreate(hipEvent_t*) { return hipSuccess; }
hipError_t hipEventDestroy(hipEvent_t) { return hipSuccess; }
hipError_t hipEventRecord(hipEvent_t, hipStream_t) { return hipSuccess; }
hipError_t hipEventSynchronize(hipEvent_t) { return hipSuccess; }
hipError_t hipEventElapsedTime(float*, hipEvent_t, hipEvent_t) { return hipSuccess; }

hipError_t hipGraphInstantiate(hipGraphExec_t*, hipGraph_t, hipGraphNode_t*, char*, size_t) {
  return hipSuccess;
}
hipError_t hipGraphLaunch(hipGraphExec_t, hipStream_t) { return hipSuccess; }
hipError_t hipGraphDestroy(hipGraph_t) { return hipSuccess; }
hipError_t hipGraphExecDestroy(hipGraphExec_t) { return hipSuccess; }
}
