// The arguments of a call that are no arrays, as values. What is missing, too much or of another
// type gets a sentence that names it, where nanobind would show its signature.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "rapt/rapt.hpp"

namespace rapt_python {

namespace nb = nanobind;

// What a function takes by position. Where a call has nothing there it is None, and a keyword may
// bring it.
struct Position {
  const char* name;
  nb::object& given;
};
// The nanobind argument for it: without a name, since nanobind answers one that is given twice with
// its signature.
inline auto by_position() { return nb::arg() = nb::none(); }
// Takes what is not given by position out of `others`. A TypeError where it is not there either, or
// where there is `more`. Functions go by their names in the package `rapt`.
void take_positions(const char* function, std::initializer_list<Position> positions,
                    const nb::args& more, nb::kwargs& others);
// For a keyword that `function` does not know, or has by position besides: a TypeError, which names
// the nearest one that it knows.
[[noreturn]] void refuse_keyword(const char* function, nb::handle keyword);

// For an argument that has two names, where both are given.
[[noreturn]] void refuse_two_names(const char* name, const char* other);

// The characters of a string, which keeps them; nothing of other objects, and where UTF-8 cannot
// hold them.
std::optional<std::string_view> utf8_of(nb::handle string);

// "None", "a str".
std::string kind_of(nb::handle object);

// A bool, NumPy's bool, or what Python takes for an integer.
bool is_truth(nb::handle object);
bool truth_from(const char* name, nb::handle object);

std::int64_t integer_from(const char* name, nb::handle object);
double number_from(const char* name, nb::handle object);
// Rounded to f32; infinities and NaN are for the library to refuse.
float float_from(const char* name, nb::handle object);
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
