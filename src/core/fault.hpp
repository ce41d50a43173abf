// The one way to refuse a caller's input: a sentence that names the value, the limit and the way
// out.
#pragma once

#include "rapt/rapt.hpp"
#include "src/core/text.hpp"

namespace rapt {

template <class... Parts>
[[noreturn]] void fault(const Parts&... parts) {
  throw Error(ErrorCode::invalid_argument, text(parts...));
}

}  // namespace rapt
