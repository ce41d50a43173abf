// The driver's functions for tensor maps, on the model: what they take and refuse.
#include <cstdint>

#include <cuda.h>

namespace {

bool is_possible_map(cuuint32_t axes, const void* data, const cuuint64_t* size,
                     const cuuint64_t* stride, const cuuint32_t* box) {
  if (axes < 3 || axes > 5 || !data || reinterpret_cast<std::uintptr_t>(data) % 16 != 0)
    return false;
  for (cuuint32_t i = 0; i < axes; ++i) {
    if (size[i] < 1 || size[i] > std::uint64_t{1} << 32 || box[i] < 1 || box[i] > 256) return false;
    if (i == 0) continue;
    const std::uint64_t step = stride[i - 1];
    if (step % 16 != 0 || step == 0 || step >= std::uint64_t{1} << 40) return false;
  }
  return box[0] * 2 <= 128;
}

}  // namespace

CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType, cuuint32_t axes, void* data,
                                const cuuint64_t* size, const cuuint64_t* stride,
                                const cuuint32_t* box, const cuuint32_t*, CUtensorMapInterleave,
                                CUtensorMapSwizzle, CUtensorMapL2promotion,
                                CUtensorMapFloatOOBfill) {
  if (!is_possible_map(axes, data, size, stride, box)) return CUDA_ERROR_INVALID_VALUE;
  map->data = static_cast<std::byte*>(data);
  for (cuuint32_t i = 0; i < 5; ++i) {
    map->size[i] = i < axes ? size[i] : 1;
    map->stride[i] = i == 0 ? 2 : i < axes ? stride[i - 1] : 0;
    map->box[i] = i < axes ? box[i] : 1;
  }
  return CUDA_SUCCESS;
}

CUresult cuTensorMapReplaceAddress(CUtensorMap* map, void* data) {
  if (!data || reinterpret_cast<std::uintptr_t>(data) % 16 != 0) return CUDA_ERROR_INVALID_VALUE;
  map->data = static_cast<std::byte*>(data);
  return CUDA_SUCCESS;
}
