// The arguments of a call that are no arrays, as values. What is missing, too much or of another
// type gets a sentence that names it, where nanobind would show its signature.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

#include "rapt/rapt.hpp"

namespace rapt_python {

namespace nb = nanobind;

// A TypeError where `function` is called without one of what it takes by position, of which a call
// that leaves one out has None, or with `more`. Functions go by their names in the package `rapt`.
void check_positions(const char* function, std::initializer_list<nb::handle> given,
                     const nb::args& more);
// For a keyword that `function` does not know: a TypeError that names the nearest it does.
[[noreturn]] void refuse_keyword(const char* function, nb::handle keyword);

// For an argument that has two names, where both are given.
[[noreturn]] void refuse_two_names(const char* name, const char* other);

// "None", "a str".
std::string kind_of(nb::handle object);

// A bool, NumPy's bool, or what Python takes for an integer.
bool is_truth(nb::handle object);
bool truth_from(const char* name, nb::handle object);

std::int64_t integer_from(const char* name, nb::handle object);
double number_from(const char* name, nb::handle object);
std::string text_from(const char* name, nb::handle object);

// By one of the functions above; None is nothing.
template <class Value>
std::optional<Value> optional_from(Value (*from)(const char*, nb::handle), const char* name,
                                   nb::handle object) {
  if (object.is_none()) return {};
  return from(name, object);
}

// None, a left bound, or a pair of bounds of which either may be None; and first keys beside it.
rapt::Window window_from(nb::handle window, std::int64_t first_keys);

}  // namespace rapt_python
