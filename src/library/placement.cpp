#include "src/library/placement.hpp"

#include "src/core/fault.hpp"
#include "src/core/layout.hpp"
#include "src/core/tensors.hpp"

namespace rapt {

namespace {

void check_address(const BackendOperations& backend, const Device& device, std::string_view name,
                   const void* memory) {
  if (!backend.reaches || backend.reaches(device, memory)) return;
  fault(name, " lies in memory that ", device.to_string(),
        " does not reach; copy it to the device first, e.g. into a rapt::Buffer");
}

}  // namespace

void check_placement(const BackendOperations& backend, const Device& device, std::string_view name,
                     const Tensor& tensor) {
  if (tensor.data && !is_empty(tensor.size)) check_address(backend, device, name, tensor.data);
}

void check_placement(const BackendOperations& backend, const Device& device,
                     const Arguments& arguments, std::span<const std::byte> workspace) {
  for (const TensorRule& rule : tensor_rules())
    check_placement(backend, device, rule.name, arguments.*rule.member);
  if (!workspace.empty()) check_address(backend, device, "the workspace", workspace.data());
}

}  // namespace rapt
