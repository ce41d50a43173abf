// How C functions fail and how they hand out text: every exception becomes a status and a sentence
// of the calling thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "rapt/rapt.h"
#include "rapt/rapt.hpp"
#include "src/core/fault.hpp"

namespace rapt::c {

// Turns the exception being handled into a status, and keeps its sentence for rapt_last_error().
std::int32_t status_of_current_exception() noexcept;

// Calls function(); no exception leaves.
template <class Function>
std::int32_t guarded(Function&& function) noexcept {
  try {
    function();
    return RAPT_OK;
  } catch (...) {
    return status_of_current_exception();
  }
}

// Throws if a pointer that is needed is null or not aligned for its type.
void require(const void* pointer, std::size_t alignment, std::string_view name);
template <class Type>
void require(Type* pointer, std::string_view name) {
  require(pointer, alignof(Type), name);
}

// Where a C function writes text, with the meaning that rapt.h gives to the three.
struct TextTarget {
  char* buffer;
  std::size_t capacity;
  std::size_t* needed;

  void write(std::string_view text) const;
};

}  // namespace rapt::c
