// emu.gemm: the products by plain loops, as BLAS defines them. What is to be tested is around them.
#include "src/portable/gemm.hpp"

#include "src/core/call.hpp"
#include "src/emulator/kernels.hpp"
#include "src/emulator/launcher.hpp"

namespace rapt {
namespace {

using gpu::Index;

template <class Element>
void multiply_matrix(const gpu::Product& p, Index index) {
  const auto* a = static_cast<const Element*>(p.a) + index * p.a_step;
  const auto* b = static_cast<const Element*>(p.b) + index * p.b_step;
  float* result = p.result + index * p.result_step;
  for (Index column = 0; column < p.n; ++column) {
    for (Index row = 0; row < p.m; ++row) {
      float sum = 0;
      for (Index i = 0; i < p.k; ++i) {
        const Index at = p.a_transposed ? row * p.a_stride + i : i * p.a_stride + row;
        sum += to_float(a[at]) * to_float(b[column * p.b_stride + i]);
      }
      float& element = result[column * p.result_stride + row];
      element = p.add ? element + sum : sum;
    }
  }
}

void multiply(const gpu::Product& p, void*) {
  with_element_type(p.dtype, [&]<class Element>(Element) {
    for (Index index = 0; index < p.count; ++index) multiply_matrix<Element>(p, index);
  });
}

std::unique_ptr<const Prepared> prepare(const Task& task) {
  const auto launch_pass = task.device.index == 0 ? gpu::launch_gemm<emulator::Launcher<32>>
                                                  : gpu::launch_gemm<emulator::Launcher<64>>;
  return prepared([task, launch_pass, items = task.config.at("items")](const semantics::Call& call,
                                                                       const Launch& launch) {
    gpu::GemmHost::run(launch_pass, {multiply, nullptr}, task, items, call, launch);
  });
}

}  // namespace

constexpr Kernel emu_gemm = {
    .name = "emu.gemm",
    .summary = gpu::GemmHost::summary,
    .backend = Backend::emu,
    .by_name_only = false,
    .supports = gpu::GemmHost::supports,
    .configs = gpu::GemmHost::configs,
    .estimate = gpu::GemmHost::estimate,
    .workspace = gpu::GemmHost::workspace,
    .prepare = prepare,
};

}  // namespace rapt
