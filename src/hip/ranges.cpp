#include "src/hip/ranges.hpp"

#include <dlfcn.h>

#include <initializer_list>

namespace rapt::hip {
namespace {

struct Roctx {
  int (*push)(const char* label) = nullptr;
  int (*pop)() = nullptr;
};

// The library stays until the process ends.
Roctx load() {
  for (const char* name : {"librocprofiler-sdk-roctx.so.1", "libroctx64.so.4"}) {
    void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) continue;
    const Roctx roctx = {reinterpret_cast<int (*)(const char*)>(dlsym(library, "roctxRangePushA")),
                         reinterpret_cast<int (*)()>(dlsym(library, "roctxRangePop"))};
    if (roctx.push && roctx.pop) return roctx;
  }
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
