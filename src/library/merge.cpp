// merge(): two attentions over disjoint sets of keys become one. Here the partials are checked,
// without allocating where nothing is wrong; the device's backend computes.
#include <algorithm>
#include <tuple>

#include "src/core/layout.hpp"
#include "src/core/overlap.hpp"
#include "src/core/text.hpp"
#include "src/library/placement.hpp"
#include "src/library/registry.hpp"

namespace rapt {
namespace {

template <class... Parts>
[[noreturn]] void fault(const Parts&... parts) {
  throw Error(ErrorCode::invalid_argument, text("merge: ", parts...));
}

struct Named {
  std::string_view name;
  const Tensor& tensor;
};

void check_tensor(const Named& named, const Shape& shape) {
  const auto& [name, tensor] = named;
  if (tensor.size != shape) {
    fault(name, " has sizes ", tensor.size[0], " × ", tensor.size[1], " × ", tensor.size[2], " × ",
          tensor.size[3], "; ", shape[0], " × ", shape[1], " × ", shape[2], " × ", shape[3],
          " are wanted");
  }
  for (std::size_t axis = 0; axis < 4; ++axis) {
    if (tensor.stride[axis] < 0)
      fault(name, " has a stride of ", tensor.stride[axis], "; strides must be 0 or more");
  }
  if (shape[3] > 1 && tensor.stride[3] != 1)
    fault(name, "'s last axis has stride ", tensor.stride[3], "; it must be contiguous");
  const auto elements = extent(shape, {tensor.stride[0], tensor.stride[1], tensor.stride[2]},
                               size_in_bytes(tensor.dtype));
  if (!elements) fault(name, " spans more bytes than 64-bit indexing reaches");
  if (*elements == 0) return;
  if (tensor.data == nullptr) fault(name, "'s data is null but it has elements");
  if (reinterpret_cast<std::uintptr_t>(tensor.data) %
          static_cast<std::uintptr_t>(size_in_bytes(tensor.dtype)) !=
      0) {
    fault(name, "'s address is not aligned to its element size");
  }
}

void check_out(const Named& out, const Shape& shape) {
  const DType dtype = out.tensor.dtype;
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16)
    fault(out.name, " is ", name(dtype), "; it must be f32, f16 or bf16");
  check_tensor(out, shape);
}

void check_lse(const Named& lse, const Shape& out_shape) {
  if (lse.tensor.dtype != DType::f32)
    fault(lse.name, " is ", name(lse.tensor.dtype), "; it must be f32");
  check_tensor(lse, {out_shape[0], out_shape[2], out_shape[1], 1});
}

void check_no_overlap(const Named& named) {
  const auto& stride = named.tensor.stride;
  if (overlaps_itself(named.tensor.size, {stride[0], stride[1], stride[2]}))
    fault(named.name, " overlaps itself; no two results may share memory");
}

// An element of a result may take the place of what it is made of, and of nothing else.
void check_memory(const Named (&outs)[3], const Named (&sums)[3]) {
  const Named& out = outs[2];
  const Named& lse = sums[2];
  const auto refuse = [](const Named& result, const Named& other) {
    fault(result.name, " shares memory with ", other.name,
          "; it needs memory of its own, or all of first's or second's, as it lies there");
  };
  for (int side = 0; side < 2; ++side) {
    for (const auto& [result, own, other] :
         {std::tie(out, outs[side], sums[side]), std::tie(lse, sums[side], outs[side])}) {
      if (!is_same_memory(result.tensor, own.tensor) && share_memory(result.tensor, own.tensor))
        refuse(result, own);
      if (share_memory(result.tensor, other.tensor)) refuse(result, other);
    }
  }
  if (share_memory(out.tensor, lse.tensor)) refuse(out, lse);
}

}  // namespace

void merge(const Partial& first, const Partial& second, const Partial& result, const Device& device,
           const MergeOptions& options) {
  const BackendOperations& backend = find_backend(device.backend);
  const Named outs[] = {
      {"first.out", first.out}, {"second.out", second.out}, {"result.out", result.out}};
  const Named sums[] = {
      {"first.lse", first.lse}, {"second.lse", second.lse}, {"result.lse", result.lse}};
  const Shape shape = first.out.size;
  if (std::ranges::any_of(shape, [](std::int64_t size) { return size < 0; }))
    fault("first.out has a negative size");
  for (const Named& out : outs) check_out(out, shape);
  for (const Named& lse : sums) check_lse(lse, shape);
  check_no_overlap(outs[2]);
  check_no_overlap(sums[2]);
  if (is_empty(shape)) return;
  check_memory(outs, sums);
  // While a graph is captured, the device cannot be asked.
  if (!backend.captures || !backend.captures(device, options.stream)) {
    for (const Named& out : outs) check_placement(backend, device, out.name, out.tensor);
    for (const Named& lse : sums) check_placement(backend, device, lse.name, lse.tensor);
  }
  backend.merge(device, first, second, result, options);
}

}  // namespace rapt
