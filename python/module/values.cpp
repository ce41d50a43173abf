#include "python/module/values.hpp"

#include <algorithm>

#include "python/module/fault.hpp"

namespace rapt_python {
namespace {

// A TypeError with a sentence of rapt._words.
template <class... Arguments>
[[noreturn]] void refuse_call(const char* sentence, const Arguments&... arguments) {
  const nb::object text = nb::module_::import_("rapt._words").attr(sentence)(arguments...);
  throw nb::type_error(nb::borrow<nb::str>(text).c_str());
}

[[noreturn]] void refuse_kind(const char* name, nb::handle object, const char* wanted) {
  throw nb::type_error(
      (std::string(name) + " is " + kind_of(object) + "; it is " + wanted).c_str());
}

}  // namespace

void check_positions(const char* function, std::initializer_list<nb::handle> given,
                     const nb::args& more) {
  const bool all = std::ranges::none_of(given, [](nb::handle object) { return object.is_none(); });
  if (all && more.size() == 0) return;
  nb::list there;
  for (const nb::handle object : given) there.append(!object.is_none());
  refuse_call("wrong_positions", function, there, more.size());
}

void refuse_keyword(const char* function, nb::handle keyword) {
  refuse_call("unexpected_keyword", function, keyword);
}

void refuse_two_names(const char* name, const char* other) {
  fault(name, " and ", other, " are one argument by two names; give one of them");
}

std::string kind_of(nb::handle object) {
  if (object.is_none()) return "None";
  const std::string type = nb::borrow<nb::str>(object.type().attr("__name__")).c_str();
  const bool vowel = std::string_view("aeiou").find(type[0]) != std::string_view::npos;
  return (vowel ? "an " : "a ") + type;
}

bool is_truth(nb::handle object) {
  if (PyBool_Check(object.ptr()) || PyIndex_Check(object.ptr())) return true;
  const nb::str type(object.type().attr("__name__"));
  return std::string_view(type.c_str()) == "bool" || std::string_view(type.c_str()) == "bool_";
}

bool truth_from(const char* name, nb::handle object) {
  if (PyBool_Check(object.ptr())) return object.ptr() == Py_True;
  if (!is_truth(object)) refuse_kind(name, object, "True or False (or 1 or 0)");
  const int truth = PyObject_IsTrue(object.ptr());
  if (truth < 0) throw nb::python_error();
  return truth != 0;
}

std::int64_t integer_from(const char* name, nb::handle object) {
  const nb::object index = nb::steal(PyNumber_Index(object.ptr()));
  if (!index.is_valid()) {
    PyErr_Clear();
    refuse_kind(name, object, "a whole number");
  }
  int overflow = 0;
  const std::int64_t number = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  if (overflow != 0) fault(name, " is ", nb::repr(index).c_str(), ", which 64 bits do not hold");
  return number;
}

double number_from(const char* name, nb::handle object) {
  const double number = PyFloat_AsDouble(object.ptr());
  if (number != -1 || !PyErr_Occurred()) return number;
  if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw nb::python_error();
  PyErr_Clear();
  refuse_kind(name, object, "a number");
}

std::string text_from(const char* name, nb::handle object) {
  if (!PyUnicode_Check(object.ptr())) refuse_kind(name, object, "a string");
  return nb::borrow<nb::str>(object).c_str();
}

rapt::Window window_from(nb::handle window, std::int64_t first_keys) {
  constexpr const char* bound = "a bound of the window";
  rapt::Window result = {.left = {}, .right = {}, .first_keys = first_keys};
  if (window.is_none()) return result;
  const nb::object number = nb::steal(PyNumber_Index(window.ptr()));
  if (number.is_valid()) {
    result.left = integer_from(bound, number);
    return result;
  }
  PyErr_Clear();
  if (!nb::isinstance<nb::sequence>(window) || nb::len(window) != 2)
    fault("the window is neither a number of keys nor a pair (left, right)");
  result.left = optional_from(integer_from, bound, window[0]);
  result.right = optional_from(integer_from, bound, window[1]);
  return result;
}

}  // namespace rapt_python
