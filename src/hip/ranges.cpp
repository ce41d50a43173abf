#include "src/hip/ranges.hpp"

#include <string>

#include "src/core/loaded_library.hpp"

namespace rapt::hip {
namespace {

struct Roctx {
  int (*push)(const char* label) = nullptr;
  int (*pop)() = nullptr;
};

Roctx load() {
  static const std::string names[] = {"librocprofiler-sdk-roctx.so.1", "libroctx64.so.4"};
  Roctx roctx;
  void* library = load_library(names);
  if (library && find_function(library, "roctxRangePushA", roctx.push) &&
      find_function(library, "roctxRangePop", roctx.pop))
    return roctx;
  return {};
}

const Roctx& roctx() {
  static const Roctx loaded = load();
  return loaded;
}

}  // namespace

void begin_range(const char* label) {
  if (roctx().push) roctx().push(label);
}
void end_range() {
  if (roctx().pop) roctx().pop();
}

}  // namespace rapt::hip
