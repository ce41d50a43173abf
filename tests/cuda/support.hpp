// A kernel with its data and its workspace on the first CUDA device, and a device where there is
// none.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "rapt/rapt.hpp"
#include "src/cuda/architectures.hpp"
#include "src/library/registry.hpp"
#include "src/verify/conformance.hpp"
#include "tests/conformance/plans.hpp"

namespace rapt::test {

// For what kernels say of problems, which needs no GPU.
inline Device imagined(std::string_view chip) {
  return cuda::device_of(*std::ranges::find(cuda::chips(), chip, &cuda::Chip::name), -1);
}
inline Device imagined_hopper() { return imagined("h200"); }

// Why a kernel does not take a problem; nothing if it does.
inline std::string refusal_of(std::string_view kernel, const char* problem,
                              const Device& device = imagined_hopper()) {
  return find_kernel(kernel).supports(Problem::parse(problem), device).refusal;
}
// What a kernel without configs expects to take.
inline double seconds_of(std::string_view kernel, const char* text) {
  const Problem problem = Problem::parse(text);
  const Device device = imagined_hopper();
  const Config config;
  return find_kernel(kernel).estimate({problem, device, config, nullptr}).seconds;
}

// Tests that need a GPU: skipped, and said, where there is none.
class OnCuda : public testing::Test {
 protected:
  void SetUp() override {
    const BackendOperations& backend = find_backend(Backend::cuda);
    if (backend.devices().empty()) GTEST_SKIP() << "no CUDA device: " << backend.absence();
    device = Device::cuda();
  }

  // Those that take the problem.
  std::vector<std::string_view> kernels_for(const Problem& problem) const {
    std::vector<std::string_view> names;
    for (const Kernel* kernel : registered_kernels()) {
      const bool ours = kernel->backend == Backend::cuda && kernel->operation == problem.operation;
      if (ours && kernel->supports(problem, device)) names.push_back(kernel->name);
    }
    return names;
  }
  std::vector<PlanOptions> plans_for(const Problem& problem) const {
    return test::plans_for(problem, device);
  }
  // Runs a kernel on each of the problems, and expects it to be right.
  void expect_right(std::string_view kernel, std::initializer_list<const char*> problems) const;

  Device device;
};

struct OneKernel {
  verify::Data data;
  Plan plan;
  verify::Guarded workspace;

  OneKernel(const Problem& problem, const Device& device, const PlanOptions& options,
            std::uint64_t seed)
      : data(problem, device, seed, verify::Fill::hostile),
        plan(problem, device, options),
        workspace(device, plan.workspace_bytes(), workspace_alignment, true) {}

  void upload() {
    data.upload();
    workspace.upload();
  }
  void run(void* stream) const {
    plan.run(data.on_device(),
             {.stream = stream, .workspace = {workspace.on_device(), plan.workspace_bytes()}});
  }

  // What is wrong with the results and with where they were written, or nothing.
  std::string fault() const {
    constexpr std::int64_t most_rows = 4000;
    const std::string wrong = verify::Reference(data, most_rows, 1).compare(data.download()).fault;
    if (!wrong.empty()) return wrong;
    const std::string misplaced = verify::misplaced_write(data, data.download());
    if (!misplaced.empty()) return misplaced;
    if (!workspace.guards_unchanged()) return "it wrote outside its workspace";
    const std::string input = data.changed_input();
    return input.empty() ? "" : "it changed its input " + input;
  }
};

inline void OnCuda::expect_right(std::string_view kernel,
                                 std::initializer_list<const char*> problems) const {
  for (const char* text : problems) {
    OneKernel one(Problem::parse(text), device, {.kernel = kernel}, 1);
    one.upload();
    one.run(nullptr);
    EXPECT_EQ(one.fault(), "") << text;
  }
}

}  // namespace rapt::test
