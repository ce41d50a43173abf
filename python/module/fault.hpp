// Wrong input, as a sentence of several parts.
#pragma once

#include <string>

#include "rapt/rapt.hpp"

namespace rapt_python {

template <class... Parts>
[[noreturn]] void fault(const Parts&... parts) {
  std::string sentence;
  ((sentence += parts), ...);
  throw rapt::Error(rapt::ErrorCode::invalid_argument, sentence);
}

}  // namespace rapt_python
