#include "src/cuda/limits.hpp"

#include <cstdint>
#include <vector>

#include "src/cuda/clock.hpp"
#include "src/cuda/cublas.hpp"
#include "src/portable/limits.hpp"

namespace rapt {

namespace cuda {
struct Launcher;  // launcher.cuh, for nvcc alone
}

extern template void gpu::launch_limits<cuda::Launcher>(const gpu::LimitsParameters&, gpu::Where);

namespace cuda {
namespace {

constexpr int side = 8192;  // of the square matrices
constexpr std::size_t elements = std::size_t{side} * side;

// Bits that read as numbers of either sign around 1, in bf16 and in f32. (Products of zeros draw
// less power than the products of real life, and let the chip run faster.)
std::vector<std::uint32_t> random_words(std::size_t count) {
  std::vector<std::uint32_t> words(count);
  std::uint32_t state = 1;
  for (std::uint32_t& word : words) {
    state = state * 1664525 + 1013904223;
    word = (state & 0x80ff80ff) | 0x3f003f00;
  }
  return words;
}

// Flop/s of products of square matrices that lie in the two buffers.
double product_flops(StreamClock& clock, cublasHandle_t handle, cudaDataType_t type,
                     cublasComputeType_t compute, const Buffer& factors, const Buffer& result) {
  const float one = 1, zero = 0;
  const void* factor = factors.data();
  const double seconds = gpu::best_seconds(clock, [&] {
    require(find_cublas()->gemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, side, side, side, &one, factor,
                                type, side, factor, type, side, &zero, result.data(), type, side,
                                compute, CUBLAS_GEMM_DEFAULT),
            "multiply matrices");
  });
  return 2.0 * side * side * side / seconds;
}

void measure_matrix_units(const Device& device, StreamClock& clock, Rates& rates) {
  const CublasHandle handle(device.index);
  require(find_cublas()->set_stream(handle, static_cast<cudaStream_t>(clock.stream())),
          "use a stream");
  const std::vector<std::uint32_t> words = random_words(elements);
  Buffer factors(device, elements * sizeof words[0]);
  const Buffer result(device, factors.size());
  factors.copy_from_host(words.data(), factors.size());
  rates.matrix_flops =
      product_flops(clock, handle, CUDA_R_16BF, CUBLAS_COMPUTE_32F, factors, result);
  rates.tf32_flops =
      product_flops(clock, handle, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, factors, result);
}

}  // namespace

Rates measure(const Device& device) {
  const std::unique_ptr<StreamClock> clock = clock_of(device);
  Rates rates = gpu::measure_rates(device, *clock, gpu::launch_limits<Launcher>);
  if (find_cublas()) measure_matrix_units(device, *clock, rates);
  return rates;
}

}  // namespace cuda
}  // namespace rapt
