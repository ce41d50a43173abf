// The host side of merge() on GPUs, for the BackendOperations of whoever can launch it.
#pragma once

#include "rapt/rapt.hpp"
#include "src/gpu/merge.hpp"

namespace rapt::gpu {

// The partials fit together and have elements. Throws Error if there are more rows than a launch
// takes.
MergeParameters merge_parameters(const Device& device, const Partial& first, const Partial& second,
                                 const Partial& result);

// BackendOperations::merge.
template <void (*launch)(const MergeParameters&, Where)>
void merge_by(const Device& device, const Partial& first, const Partial& second,
              const Partial& result, const MergeOptions& options) {
  launch(merge_parameters(device, first, second, result), {device.index, options.stream});
}

}  // namespace rapt::gpu
