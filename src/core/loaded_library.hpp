// Libraries that are loaded when they are first needed, and stay until the process ends: rapt links
// none of them, and says so in a sentence where they are not there.
#pragma once

#include <dlfcn.h>

#include <span>
#include <string>

namespace rapt {

// The first of these libraries that can be loaded, one that is in the process already before the
// others: two copies of a runtime know nothing of each other's memory. Null where none can.
void* load_library(std::span<const std::string> names);

// "none of a.so, b.so can be loaded"
std::string cannot_load(std::span<const std::string> names);

template <class Function>
bool find_function(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace rapt
