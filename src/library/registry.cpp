// The list of kernels. A new kernel is one line here.
#include "src/library/registry.hpp"

#include "src/cpu/kernels.hpp"
#include "src/oracle/oracle.hpp"

namespace rapt {

std::span<const Kernel* const> registered_kernels() {
  // clang-format off
  static constexpr const Kernel* list[] = {
      &cpu_oracle,
      &cpu_naive,
      &cpu_flash,
      &cpu_flash_amx,
      &cpu_split_kv,
      &cpu_tiny_kv,
  };
  // clang-format on
  return list;
}

}  // namespace rapt
