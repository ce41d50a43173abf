#include "src/library/placement.hpp"

#include "src/core/fault.hpp"
#include "src/core/layout.hpp"
#include "src/core/tensors.hpp"

namespace rapt {

void check_placement(const BackendOperations& backend, const Device& device,
                     const Arguments& arguments, std::span<const std::byte> workspace) {
  if (!backend.reaches) return;
  const auto check = [&](std::string_view name, const void* memory) {
    if (backend.reaches(device, memory)) return;
    fault(name, " lies in memory that ", device.to_string(),
          " does not reach; copy it to the device first, e.g. into a rapt::Buffer");
  };
  for (const TensorRule& rule : tensor_rules()) {
    const Tensor& tensor = arguments.*rule.member;
    if (tensor.data && !is_empty(tensor.size)) check(rule.name, tensor.data);
  }
  if (!workspace.empty()) check("the workspace", workspace.data());
}

}  // namespace rapt
