// merge() on the CPU.
#pragma once

#include "rapt/rapt.hpp"

namespace rapt {

// BackendOperations::merge: the partials fit together and have elements.
void merge_on_cpu(const Device& device, const Partial& first, const Partial& second,
                  const Partial& result, const MergeOptions& options);

}  // namespace rapt
