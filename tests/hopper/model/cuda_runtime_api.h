// As much of CUDA's runtime as kernels' hosts call. Everything is done when a call returns.
#pragma once

#include <cstddef>
#include <cstring>

#include <cuda.h>

using cudaStream_t = struct Stream*;
enum cudaError_t {
  cudaSuccess,
  cudaErrorInvalidValue,
  cudaErrorNotSupported,
  cudaErrorMemoryAllocation
};
enum cudaDriverEntryPointQueryResult { cudaDriverEntryPointSuccess };
enum { cudaEnableDefault };
enum cudaDeviceAttr { cudaDevAttrComputeCapabilityMajor };
enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize,
  cudaFuncAttributePreferredSharedMemoryCarveout
};
enum { cudaSharedmemCarveoutMaxShared = 100 };
enum cudaLaunchAttributeID {
  cudaLaunchAttributeNone,
  cudaLaunchAttributeCooperative,
  cudaLaunchAttributeProgrammaticStreamSerialization
};

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  struct {
    int cooperative, programmaticStreamSerializationAllowed;
  } val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};

inline const char* cudaGetErrorString(cudaError_t) { return "the model refuses it"; }
inline const char* cudaGetErrorName(cudaError_t) { return "an error of the model"; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline cudaError_t cudaFree(void*) { return cudaSuccess; }
inline cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
inline cudaError_t cudaSetDevice(int) { return cudaSuccess; }
inline cudaError_t cudaDeviceGetAttribute(int* major, cudaDeviceAttr, int) {
  return *major = 9, cudaSuccess;
}
template <class Function>
cudaError_t cudaFuncSetAttribute(Function*, cudaFuncAttribute, int) {
  return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t) {
  return std::memset(memory, value, bytes), cudaSuccess;
}
inline cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** found, int, int,
                                                    cudaDriverEntryPointQueryResult* result) {
  *result = cudaDriverEntryPointSuccess;
  *found = std::strcmp(name, "cuTensorMapEncodeTiled") == 0
               ? reinterpret_cast<void*>(&cuTensorMapEncodeTiled)
               : reinterpret_cast<void*>(&cuTensorMapReplaceAddress);
  return cudaSuccess;
}
