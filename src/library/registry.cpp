// The list of kernels. A new kernel is one line here.
#include "src/library/registry.hpp"

#include "src/cpu/kernels.hpp"
#include "src/oracle/oracle.hpp"
#include "src/oracle/pair_gradients.hpp"
#if defined(RAPT_WITH_CUDA)
#include "src/cuda/kernels.hpp"
#endif
#if defined(RAPT_WITH_HIP)
#include "src/hip/kernels.hpp"
#endif
#if defined(RAPT_WITH_EMULATOR)
#include "src/emulator/kernels.hpp"
#endif

namespace rapt {

std::span<const Kernel* const> registered_kernels() {
  // clang-format off
  static constexpr const Kernel* list[] = {
      &cpu_oracle,
      &cpu_naive,
      &cpu_flash,
      &cpu_flash_amx,
      &cpu_flash_bf16,
      &cpu_split_kv,
      &cpu_tiny_kv,
      &cpu_oracle_backward,
      &cpu_naive_backward,
      &cpu_flash_backward,
      &cpu_flash_amx_backward,
      &cpu_flash_bf16_backward,
#if defined(RAPT_WITH_CUDA)
      &cuda_naive,
      &cuda_gemm,
      &cuda_shared,
      &cuda_flash,
      &cuda_flash_wide,
      &cuda_split_kv,
      &cuda_tiny_kv,
      &cuda_flash_mma,
      &cuda_flash_wgmma,
      &cuda_flash_wgmma_f32,
      &cuda_naive_backward,
      &cuda_flash_backward,
      &cuda_flash_mma_backward,
      &cuda_flash_wgmma_backward,
      &cuda_flash_wgmma_backward_wide,
#endif
#if defined(RAPT_WITH_HIP)
      &hip_naive,
      &hip_shared,
      &hip_flash,
      &hip_flash_wide,
      &hip_split_kv,
      &hip_tiny_kv,
      &hip_naive_backward,
      &hip_flash_backward,
#endif
#if defined(RAPT_WITH_EMULATOR)
      &emu_naive,
      &emu_gemm,
      &emu_shared,
      &emu_flash,
      &emu_flash_wide,
      &emu_split_kv,
      &emu_tiny_kv,
      &emu_flash_mma,
      &emu_naive_backward,
      &emu_flash_backward,
      &emu_flash_mma_backward,
#endif
  };
  // clang-format on
  return list;
}

}  // namespace rapt
