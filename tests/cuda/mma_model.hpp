// Kernels of matrix units on the GPU: src/gpu/target.hpp's operations by CUDA's Target.
#pragma once

#include <cstdint>
#include <vector>

namespace rapt::test {

// What the kernels of tests/emulator/matrix_kernels.hpp give on device 0 for words of all threads.
std::vector<std::uint32_t> multiplied_f32_on_gpu(const std::vector<std::uint32_t>& in);
std::vector<std::uint32_t> multiplied_f16_on_gpu(const std::vector<std::uint32_t>& in);
std::vector<std::uint32_t> multiplied_bf16_on_gpu(const std::vector<std::uint32_t>& in);
std::vector<std::uint32_t> loaded_on_gpu(const std::vector<std::uint32_t>& in);
std::vector<std::uint32_t> loaded_transposed_on_gpu(const std::vector<std::uint32_t>& in);
std::vector<std::uint32_t> copied_on_gpu(const std::vector<std::uint32_t>& in);
std::vector<std::uint32_t> converted_on_gpu(const std::vector<std::uint32_t>& in);

}  // namespace rapt::test
