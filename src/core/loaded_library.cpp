#include "src/core/loaded_library.hpp"

#include "src/core/text.hpp"

namespace rapt {

void* load_library(std::span<const std::string> names) {
  for (const int where : {RTLD_NOLOAD, 0}) {
    for (const std::string& name : names) {
      if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | where)) return library;
    }
  }
  return nullptr;
}

std::string cannot_load(std::span<const std::string> names) {
  std::string listed;
  for (const std::string& name : names) listed += text(listed.empty() ? "" : ", ", name);
  return text("none of ", listed, " can be loaded");
}

}  // namespace rapt
