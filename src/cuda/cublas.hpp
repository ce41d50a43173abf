// cuBLAS, loaded at run time: rapt links none of it, and does without where it is not there.
#pragma once

#include <cublas_api.h>

#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "rapt/rapt.hpp"

namespace rapt::cuda {

// The functions of cuBLAS that rapt calls.
struct Cublas {
  decltype(&cublasCreate_v2) create;
  decltype(&cublasDestroy_v2) destroy;
  decltype(&cublasSetStream_v2) set_stream;
  decltype(&cublasSetWorkspace_v2) set_workspace;
  decltype(&cublasGetStatusString) status_string;
  // The header overloads these two, so that their types are written out: result (m, n) =
  // alpha · op(a) (m, k) · op(b) (k, n) + beta · result, all by columns.
  cublasStatus_t (*gemm)(cublasHandle_t, cublasOperation_t op_a, cublasOperation_t op_b, int m,
                         int n, int k, const void* alpha, const void* a, cudaDataType a_type,
                         int a_stride, const void* b, cudaDataType b_type, int b_stride,
                         const void* beta, void* result, cudaDataType type, int stride,
                         cublasComputeType_t, cublasGemmAlgo_t);
  cublasStatus_t (*gemm_strided_batched)(cublasHandle_t, cublasOperation_t op_a,
                                         cublasOperation_t op_b, int m, int n, int k,
                                         const void* alpha, const void* a, cudaDataType a_type,
                                         int a_stride, long long a_batch_stride, const void* b,
                                         cudaDataType b_type, int b_stride,
                                         long long b_batch_stride, const void* beta, void* result,
                                         cudaDataType type, int stride, long long batch_stride,
                                         int batches, cublasComputeType_t, cublasGemmAlgo_t);
};

// Null where there is no cuBLAS; cublas_absence() says so in a sentence. The first call loads it,
// which may take a moment.
const Cublas* find_cublas();
std::string cublas_absence();

// What that looks for: the first of these libraries that can be loaded.
struct CublasSearch {
  std::optional<Cublas> functions;
  std::string absence;  // why there are none
};
CublasSearch search_cublas(std::span<const std::string> libraries);

// Throws Error, "cuBLAS could not <what>: ...", unless the status is a success.
void require(cublasStatus_t status, std::string_view what);

// cuBLAS on one device. Throws Error where there is none. Creating it allocates and may wait.
class CublasHandle {
 public:
  explicit CublasHandle(int device);
  ~CublasHandle();
  CublasHandle(const CublasHandle&) = delete;
  CublasHandle& operator=(const CublasHandle&) = delete;

  operator cublasHandle_t() const { return handle_; }

 private:
  cublasHandle_t handle_ = nullptr;
};

// A device's one handle, which all runs share. Lending it allocates nothing once it is there.
void prepare_cublas(int device);

// The handle in the hands of one thread, set to a stream and to memory of the caller's.
class LentCublas {
 public:
  LentCublas(int device, cudaStream_t stream, std::span<std::byte> workspace);

  operator cublasHandle_t() const { return handle_; }

 private:
  std::unique_lock<std::mutex> lock_;
  cublasHandle_t handle_;
};

}  // namespace rapt::cuda
