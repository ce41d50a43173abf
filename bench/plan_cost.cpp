// What a plan costs the host: making one, and running one, beyond what the device does.
//
//   rapt_plan_cost DEVICE PROBLEM KERNEL [PROBLEM KERNEL]...      KERNEL: a name, or - for the
//   choice
//
// Prints microseconds, the median and the least of many rounds. A run on a GPU counts until it is
// in the stream; problems should be small, so that the stream never fills. Where the program was
// linked with --wrap for CUDA's launches, runs are timed once more with those left out: what is
// left is rapt's own.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "src/library/registry.hpp"
#include "src/verify/data.hpp"

#if defined(RAPT_WITH_CUDA_LAUNCHES_WRAPPED)
#include <cuda_runtime_api.h>

static bool launches_left_out = false;
extern "C" {
cudaError_t __real_cudaLaunchKernelExC(const cudaLaunchConfig_t*, const void*, void**);
cudaError_t __wrap_cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel,
                                       void** arguments) {
  return launches_left_out ? cudaSuccess : __real_cudaLaunchKernelExC(config, kernel, arguments);
}
cudaError_t __real_cudaMemsetAsync(void*, int, size_t, cudaStream_t);
cudaError_t __wrap_cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  return launches_left_out ? cudaSuccess : __real_cudaMemsetAsync(memory, value, bytes, stream);
}
}
#else
static bool launches_left_out = false;
#endif

namespace {

struct Times {
  double median, least;
};

// Of one call, in microseconds; `settle` runs between rounds and is not timed.
Times time_of(int calls, const std::function<void()>& call, const std::function<void()>& settle) {
  constexpr int rounds = 41;
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    settle();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call();
    const std::chrono::duration<double, std::micro> elapsed =
        std::chrono::steady_clock::now() - start;
    times.push_back(elapsed.count() / calls);
  }
  std::ranges::sort(times);
  return {times[times.size() / 2], times.front()};
}

void measure(const rapt::Device& device, const std::string& text, const std::string& kernel) {
  const rapt::Problem problem = rapt::Problem::parse(text);
  rapt::PlanOptions options;
  if (kernel != "-") options.kernel = kernel;
  const auto& backend = rapt::find_backend(device.backend);
  const auto settle = [&] { backend.wait(device, nullptr); };
  const rapt::Plan plan(problem, device, options);
  const Times made = time_of(
      20, [&] { const rapt::Plan another(problem, device, options); }, settle);

  rapt::verify::Data data(problem, device, 1, rapt::verify::Fill::typical);
  data.upload();
  const rapt::Arguments arguments = data.on_device();
  const rapt::Buffer workspace(device, plan.workspace_bytes());
  const auto run = [&] { plan.run(arguments, {.workspace = workspace.bytes()}); };
  run();
  const Times ran = time_of(100, run, settle);
  std::printf("%-44s %-20s plan %7.2f (%.2f)   run %7.3f (%.3f)", text.c_str(),
              std::string(plan.kernel()).c_str(), made.median, made.least, ran.median, ran.least);
  if (device.backend == rapt::Backend::cuda) {
    launches_left_out = true;
    const Times own = time_of(100, run, settle);
    launches_left_out = false;
    std::printf("   without launches %7.3f (%.3f)", own.median, own.least);
  }
  std::printf("   workspace %zu\n", plan.workspace_bytes());
}

}  // namespace

int main(int count, char** words) try {
  if (count < 4 || count % 2 != 0) {
    std::fputs("usage: rapt_plan_cost DEVICE PROBLEM KERNEL [PROBLEM KERNEL]...\n", stderr);
    return 2;
  }
  const rapt::Device device = rapt::Device::parse(words[1]);
  std::printf("microseconds on the host: median (least)\n");
  for (int i = 2; i < count; i += 2) measure(device, words[i], words[i + 1]);
} catch (const std::exception& error) {
  std::fprintf(stderr, "rapt_plan_cost: %s\n", error.what());
  return 1;
}
