#include "src/cuda/hopper/tensor_map.hpp"

#include <algorithm>

#include "src/core/text.hpp"
#include "src/cuda/check.hpp"

namespace rapt::cuda {
namespace {

// From the driver that is loaded, so that nothing links to it.
template <class Function>
Function* driver_function(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = {};
  require(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result),
          text("find ", name));
  if (result != cudaDriverEntryPointSuccess) require(cudaErrorNotSupported, "make tensor maps");
  return reinterpret_cast<Function*>(found);
}

struct DriverFunctions {
  decltype(cuTensorMapEncodeTiled)* encode;
  decltype(cuTensorMapReplaceAddress)* replace;
};

const DriverFunctions& driver_functions() {
  static const DriverFunctions all = [] {
    require(cudaFree(nullptr), "start");  // the driver's functions do not start it themselves
    return DriverFunctions{
        driver_function<decltype(cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled"),
        driver_function<decltype(cuTensorMapReplaceAddress)>("cuTensorMapReplaceAddress")};
  }();
  return all;
}

}  // namespace

void find_map_functions() { driver_functions(); }

template <int axes>
CUtensorMap tensor_map(const MappedTensor<axes>& tensor) {
  constexpr cuuint64_t element_bytes = 2, unused_stride = 16;
  std::array<cuuint64_t, axes> size;
  std::array<cuuint64_t, axes - 1> stride;
  std::array<cuuint32_t, axes> box, step;
  for (int i = 0; i < axes; ++i) {
    size[i] = static_cast<cuuint64_t>(std::max<std::int64_t>(tensor.size[i], 1));
    box[i] = static_cast<cuuint32_t>(tensor.box[i]);
    step[i] = 1;
    if (i == 0) continue;
    stride[i - 1] =
        size[i] > 1 ? static_cast<cuuint64_t>(tensor.stride[i - 1]) * element_bytes : unused_stride;
  }
  CUtensorMap map;
  const CUresult result = driver_functions().encode(
      &map,
      tensor.dtype == DType::f16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
      axes, const_cast<void*>(tensor.data), size.data(), stride.data(), box.data(), step.data(),
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) require(cudaErrorInvalidValue, "make a tensor map");
  return map;
}

bool has_unmapped_stride(const Problem::Strides& stride, std::int64_t outer, std::int64_t rows,
                         std::int64_t heads) {
  if (outer == 0 || rows == 0 || heads == 0) return false;
  const auto bad = [](std::int64_t step, std::int64_t count) {
    return count > 1 && (step <= 0 || step >= std::int64_t{1} << 39);
  };
  return bad(stride[0], outer) || bad(stride[1], rows) || bad(stride[2], heads);
}

void move_map(CUtensorMap& map, const void* data) {
  if (driver_functions().replace(&map, const_cast<void*>(data)) != CUDA_SUCCESS)
    require(cudaErrorInvalidValue, "move a tensor map");
}

template CUtensorMap tensor_map<4>(const MappedTensor<4>&);
template CUtensorMap tensor_map<5>(const MappedTensor<5>&);

}  // namespace rapt::cuda
