#include "src/core/kernel.hpp"

#include "src/core/text.hpp"

namespace rapt {

Support support_of(const Kernel& kernel, const Problem& problem, const Device& device) {
  if (kernel.operation != problem.operation)
    return Support::no(text("it computes ", name(kernel.operation)));
  if (problem.row_invariant && !kernel.row_invariant)
    return Support::no(
        "how it sums a row depends on what is around it; this problem is batch-invariant:rows");
  return kernel.supports(problem, device);
}

}  // namespace rapt
