// The list of backends, and looking things up in both lists.
#include <vector>

#include "src/core/closest.hpp"
#include "src/core/text.hpp"
#include "src/cpu/device.hpp"
#include "src/library/registry.hpp"
#if defined(RAPT_WITH_CUDA)
#include "src/cuda/device.hpp"
#endif
#if defined(RAPT_WITH_HIP)
#include "src/hip/device.hpp"
#endif
#if defined(RAPT_WITH_EMULATOR)
#include "src/emulator/device.hpp"
#endif

namespace rapt {

std::span<const BackendOperations* const> registered_backends() {
  static constexpr const BackendOperations* list[] = {
    &cpu_backend,
#if defined(RAPT_WITH_CUDA)
    &cuda_backend,
#endif
#if defined(RAPT_WITH_HIP)
    &hip_backend,
#endif
#if defined(RAPT_WITH_EMULATOR)
    &emu_backend,
#endif
  };
  return list;
}

const BackendOperations& find_backend(Backend backend) {
  for (const BackendOperations* candidate : registered_backends()) {
    if (candidate->backend == backend) return *candidate;
  }
  throw Error(ErrorCode::not_found, text("this build of rapt has no ", name(backend),
                                         " backend; the CPU is always there"));
}

const Kernel& find_kernel(std::string_view name) {
  std::string list;
  std::vector<std::string_view> names;
  for (const Kernel* kernel : registered_kernels()) {
    if (kernel->name == name) return *kernel;
    names.push_back(kernel->name);
    list += text(list.empty() ? "" : ", ", kernel->name);
  }
  throw Error(ErrorCode::not_found, text("there is no kernel '", name, "'",
                                         did_you_mean(name, names), "; there are ", list));
}

std::vector<KernelInfo> kernels() {
  std::vector<KernelInfo> result;
  for (const Kernel* kernel : registered_kernels()) {
    result.push_back(
        {kernel->name, kernel->summary, kernel->backend, kernel->by_name_only, kernel->operation});
  }
  return result;
}

}  // namespace rapt
