// Element types, apart from the rest of the C++ API (rapt.hpp), which device code has no use for.
#pragma once

#include <stdint.h>

namespace rapt {

enum class DType : int32_t { none = 0, f32 = 1, f16 = 2, bf16 = 3, i32 = 4, u8 = 5, i64 = 6 };

}  // namespace rapt
