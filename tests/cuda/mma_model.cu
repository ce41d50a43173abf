#include "tests/cuda/mma_model.hpp"

#include "src/cuda/launcher.cuh"
#include "tests/emulator/matrix_kernels.hpp"

namespace rapt::test {
namespace {

using Target = cuda::Target;
using AllWords = std::vector<std::uint32_t>;

template <class Kernel>
AllWords on_gpu(const AllWords& in) {
  AllWords out(Kernel::threads * Kernel::out_words);
  const std::size_t in_bytes = in.size() * 4, out_bytes = out.size() * 4;
  const cuda::UseDevice current(0);
  std::uint32_t* memory = nullptr;  // out, then in
  cuda::require(cudaMalloc(&memory, out_bytes + in_bytes), "allocate words of a test");
  std::uint32_t* const of_in = memory + out.size();
  cuda::require(cudaMemcpy(of_in, in.data(), in_bytes, cudaMemcpyHostToDevice), "copy words");
  cuda::Launcher::launch<Kernel>({1}, {of_in, memory}, {0, nullptr});
  cuda::require(cudaMemcpy(out.data(), memory, out_bytes, cudaMemcpyDeviceToHost), "copy words");
  cuda::require(cudaFree(memory), "release words of a test");
  return out;
}

}  // namespace

AllWords multiplied_f32_on_gpu(const AllWords& in) { return on_gpu<Multiplies<Target, float>>(in); }
AllWords multiplied_f16_on_gpu(const AllWords& in) { return on_gpu<Multiplies<Target, F16>>(in); }
AllWords multiplied_bf16_on_gpu(const AllWords& in) { return on_gpu<Multiplies<Target, BF16>>(in); }
AllWords loaded_on_gpu(const AllWords& in) { return on_gpu<LoadsMatrices<Target, false>>(in); }
AllWords loaded_transposed_on_gpu(const AllWords& in) {
  return on_gpu<LoadsMatrices<Target, true>>(in);
}
AllWords copied_on_gpu(const AllWords& in) { return on_gpu<CopiesAhead<Target>>(in); }
AllWords converted_on_gpu(const AllWords& in) { return on_gpu<Converts<Target>>(in); }

}  // namespace rapt::test
