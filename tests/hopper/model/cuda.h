// As much of CUDA's driver as kernels' hosts call: tensor maps, which it checks as the driver does.
#pragma once

#include <cstddef>
#include <cstdint>

using cuuint32_t = std::uint32_t;
using cuuint64_t = std::uint64_t;

enum CUresult { CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE };
enum CUtensorMapDataType { CU_TENSOR_MAP_DATA_TYPE_FLOAT16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 };
enum CUtensorMapInterleave { CU_TENSOR_MAP_INTERLEAVE_NONE };
enum CUtensorMapSwizzle { CU_TENSOR_MAP_SWIZZLE_128B };
enum CUtensorMapL2promotion { CU_TENSOR_MAP_L2_PROMOTION_L2_256B };
enum CUtensorMapFloatOOBfill { CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE };

// Of elements of 16 bits; axes that it has not have a length of 1.
struct alignas(64) CUtensorMap {
  std::byte* data;
  std::uint64_t size[5], stride[5];  // strides in bytes, of every axis
  std::uint32_t box[5];
};

CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t axes,
                                void* data, const cuuint64_t* size, const cuuint64_t* stride,
                                const cuuint32_t* box, const cuuint32_t* step,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill);
CUresult cuTensorMapReplaceAddress(CUtensorMap* map, void* data);
