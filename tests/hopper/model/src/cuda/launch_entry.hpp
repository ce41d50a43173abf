// Launches a kernel of one parameter on the model.
#pragma once

#include "src/cuda/check.hpp"
#include "tests/hopper/machine.hpp"

namespace rapt::cuda {

template <class Parameters>
void launch_entry(const cudaLaunchConfig_t& config, void (*entry)(Parameters),
                  const Parameters& parameters) {
  struct Both {
    void (*entry)(Parameters);
    const Parameters& parameters;
  };
  const Both both = {entry, parameters};
  model::run({
      .blocks = static_cast<int>(config.gridDim.x),
      .threads = static_cast<int>(config.blockDim.x),
      .shared_bytes = static_cast<int>(config.dynamicSmemBytes),
      .all_at_once = config.numAttrs > 0 && config.attrs->id == cudaLaunchAttributeCooperative,
      .run =
          [](const void* of_launch) {
            const auto& [entry_, parameters_] = *static_cast<const Both*>(of_launch);
            entry_(parameters_);
          },
      .parameters = &both,
  });
}

}  // namespace rapt::cuda
