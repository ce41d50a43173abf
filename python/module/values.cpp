#include "python/module/values.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "python/module/fault.hpp"

namespace rapt_python {
namespace {

// A TypeError with a sentence of rapt._words.
template <class... Arguments>
[[noreturn]] void refuse_call(const char* sentence, const Arguments&... arguments) {
  const nb::object text = nb::module_::import_("rapt._words").attr(sentence)(arguments...);
  PyErr_SetObject(PyExc_TypeError, text.ptr());
  throw nb::python_error();
}

// As Python writes it, in ASCII.
std::string text_of(nb::handle object) {
  const nb::object text = nb::steal(PyObject_ASCII(object.ptr()));
  if (!text.is_valid()) throw nb::python_error();
  return nb::borrow<nb::str>(text).c_str();
}

std::string name_of_type(nb::handle object) {
  const nb::object name = object.type().attr("__name__");
  return std::string(utf8_of(name).value_or("object"));
}

[[noreturn]] void refuse_kind(const char* name, nb::handle object, const char* wanted) {
  throw nb::type_error(
      (std::string(name) + " is " + kind_of(object) + "; it is " + wanted).c_str());
}

// A keyword's object, which is not among the others any more; None where there is none.
nb::object taken(nb::kwargs& others, const char* name) {
  const nb::str key(name);
  nb::object object = nb::borrow(PyDict_GetItem(others.ptr(), key.ptr()));
  if (!object.is_valid()) return nb::none();
  if (PyDict_DelItem(others.ptr(), key.ptr()) != 0) throw nb::python_error();
  return object;
}

}  // namespace

void take_positions(const char* function, std::initializer_list<Position> positions,
                    const nb::args& more, nb::kwargs& others) {
  bool all = true;
  for (const Position& position : positions) {
    if (position.given.is_none()) position.given = taken(others, position.name);
    all = all && !position.given.is_none();
  }
  if (all && more.size() == 0) return;
  nb::list there;
  for (const Position& position : positions) there.append(!position.given.is_none());
  refuse_call("wrong_positions", function, there, more.size());
}

void refuse_keyword(const char* function, nb::handle keyword) {
  refuse_call("unexpected_keyword", function, keyword);
}

void refuse_two_names(const char* name, const char* other) {
  fault(name, " and ", other, " are one argument by two names; give one of them");
}

std::optional<std::string_view> utf8_of(nb::handle string) {
  if (!PyUnicode_Check(string.ptr())) return {};
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(string.ptr(), &size);
  if (text != nullptr) return std::string_view(text, static_cast<std::size_t>(size));
  PyErr_Clear();
  return {};
}

std::string kind_of(nb::handle object) {
  if (object.is_none()) return "None";
  const std::string type = name_of_type(object);
  const bool vowel = std::string_view("aeiou").find(type[0]) != std::string_view::npos;
  return (vowel ? "an " : "a ") + type;
}

bool is_truth(nb::handle object) {
  if (PyBool_Check(object.ptr()) || PyIndex_Check(object.ptr())) return true;
  const std::string type = name_of_type(object);
  return type == "bool" || type == "bool_";
}

bool truth_from(const char* name, nb::handle object) {
  if (PyBool_Check(object.ptr())) return object.ptr() == Py_True;
  constexpr const char* wanted = "True or False (or 1 or 0)";
  if (!is_truth(object)) refuse_kind(name, object, wanted);
  const int truth = PyObject_IsTrue(object.ptr());
  const int is_itself =
      truth < 0 ? truth : PyObject_RichCompareBool(object.ptr(), nb::int_(truth).ptr(), Py_EQ);
  if (is_itself < 0) throw nb::python_error();
  if (is_itself == 0) fault(name, " is ", text_of(object), "; it is ", wanted);
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
  const bool too_large = PyErr_ExceptionMatches(PyExc_OverflowError) != 0;
  if (!too_large && !PyErr_ExceptionMatches(PyExc_TypeError)) throw nb::python_error();
  PyErr_Clear();
  if (too_large)
    fault(name, " is ", kind_of(object), " that f64 does not hold; give a number nearer to 0");
  refuse_kind(name, object, "a number");
}

float float_from(const char* name, nb::handle object) {
  const double number = number_from(name, object);
  if (std::isfinite(number) && std::abs(number) > double(std::numeric_limits<float>::max()))
    fault(name, " is ", text_of(nb::float_(number)),
          ", which f32 does not hold; give a number between -3.4e38 and 3.4e38");
  return static_cast<float>(number);
}

std::string text_from(const char* name, nb::handle object) {
  if (!PyUnicode_Check(object.ptr())) refuse_kind(name, object, "a string");
  const auto text = utf8_of(object);
  if (!text || text->find('\0') != std::string_view::npos)
    fault(name, " is ", text_of(object),
          "; it is a string without NUL and without lone surrogates");
  return std::string(*text);
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
