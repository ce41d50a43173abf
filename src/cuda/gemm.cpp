// cuda.gemm: the products by cuBLAS, which is loaded at run time.
#include "src/portable/gemm.hpp"

#include "src/cuda/check.hpp"
#include "src/cuda/compiled_code.hpp"
#include "src/cuda/cublas.hpp"
#include "src/cuda/kernels.hpp"

namespace rapt {

namespace cuda {
struct Launcher;  // launcher.cuh, for nvcc alone
}

extern template void gpu::launch_gemm<cuda::Launcher>(const gpu::GemmParameters&,
                                                      const gpu::Products&, gpu::Where);

namespace cuda {
namespace {

cudaDataType type_of(DType dtype) {
  switch (dtype) {
    case DType::f16: return CUDA_R_16F;
    case DType::bf16: return CUDA_R_16BF;
    default: return CUDA_R_32F;
  }
}

// `context` is a LentCublas. Every size is known to fit into an int.
void multiply(const gpu::Product& p, void* context) {
  const float one = 1, beta = p.add ? 1 : 0;
  const cudaDataType type = type_of(p.dtype);
  require(find_cublas()->gemm_strided_batched(
              *static_cast<const LentCublas*>(context), p.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
              CUBLAS_OP_N, static_cast<int>(p.m), static_cast<int>(p.n), static_cast<int>(p.k),
              &one, p.a, type, static_cast<int>(p.a_stride), p.a_step, p.b, type,
              static_cast<int>(p.b_stride), p.b_step, &beta, p.result, CUDA_R_32F,
              static_cast<int>(p.result_stride), p.result_step, static_cast<int>(p.count),
              p.tf32 && p.dtype == DType::f32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
              CUBLAS_GEMM_DEFAULT),
          "multiply matrices");
}

Support supports(const Problem& problem, const Device& device) {
  if (Support code = has_code(device); !code) return code;
  Support sizes = gpu::GemmHost::supports(problem, device);
  const bool elsewhere = device.index < 0;  // where cuBLAS may be as well
  if (!sizes || elsewhere || find_cublas()) return sizes;
  return Support::no(cublas_absence());
}

std::unique_ptr<const Prepared> prepare(const Task& task) {
  prepare_cublas(task.device.index);
  return prepared([task, items = task.config.at("items")](const semantics::Call& call,
                                                          const Launch& launch) {
    const UseDevice current(task.device.index);
    LentCublas cublas(task.device.index, static_cast<cudaStream_t>(launch.stream),
                      gpu::GemmHost::library_workspace(task, items, call, launch));
    gpu::GemmHost::run(gpu::launch_gemm<Launcher>, {multiply, &cublas}, task, items, call, launch);
  });
}

}  // namespace
}  // namespace cuda

constexpr Kernel cuda_gemm = {
    .name = "cuda.gemm",
    .summary = gpu::GemmHost::summary,
    .backend = Backend::cuda,
    .by_name_only = false,
    .supports = cuda::supports,
    .configs = gpu::GemmHost::configs,
    .estimate = gpu::GemmHost::estimate,
    .workspace = gpu::GemmHost::workspace,
    .prepare = cuda::prepare,
};

}  // namespace rapt
