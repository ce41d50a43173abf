// The list of kernels. A new kernel is one line here.
#include "src/library/registry.hpp"

#include "src/cpu/kernels.hpp"
#include "src/oracle/oracle.hpp"

namespace rapt {

std::span<const Kernel* const> registered_kernels() {
  static constexpr const Kernel* list[] = {
      &cpu_oracle,
      &cpu_naive,
  };
  return list;
}

}  // namespace rapt
