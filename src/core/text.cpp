#include "src/core/text.hpp"

#include <locale.h>
#include <stdlib.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <span>

namespace rapt {

namespace {

// `read` is strtof_l or strtod_l, which also take leading blanks, a plus sign and hexadecimals.
template <class Number>
std::optional<Number> parse_real(std::string_view text,
                                 Number (*read)(const char*, char**, locale_t)) {
  static const locale_t plain = newlocale(LC_ALL_MASK, "C", nullptr);
  if (text.empty() || std::isspace(static_cast<unsigned char>(text.front())) ||
      text.front() == '+' || text.find_first_of("xX") != text.npos)
    return std::nullopt;
  const std::string copy(text);
  char* end = nullptr;
  errno = 0;
  const Number value = read(copy.c_str(), &end, plain);
  const bool out_of_range = errno == ERANGE && (value == 0 || std::isinf(value));
  if (end != copy.c_str() + copy.size() || out_of_range) return std::nullopt;
  return value;
}

// Three digits: 1.23, 12.3, 123.
std::string three_digits(double value) {
  const int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  char digits[512];  // room for the largest double
  const auto end =
      std::to_chars(digits, digits + sizeof digits, value, std::chars_format::fixed, decimals);
  return {digits, end.ptr};
}

// "12.3 M": in steps from one unit to the next.
std::string scaled(double value, double step, std::span<const std::string_view> units) {
  std::size_t unit = 0;
  for (; value >= step && unit + 1 < units.size(); ++unit) value /= step;
  return text(three_digits(value), " ", units[unit]);
}

}  // namespace

std::optional<float> parse_float(std::string_view text) {
  return parse_real<float>(text, strtof_l);
}
std::optional<double> parse_double(std::string_view text) {
  return parse_real<double>(text, strtod_l);
}

std::string human_bytes(double bytes) {
  static constexpr std::string_view units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return text(static_cast<std::int64_t>(bytes), " B");
  return scaled(bytes / 1024, 1024, units);
}

std::string human_seconds(double seconds) {
  static constexpr std::string_view units[] = {"µs", "ms", "s"};
  return scaled(seconds * 1e6, 1000, units);
}

std::string counted(std::int64_t count, std::string_view noun) {
  return text(count, " ", noun, count == 1 ? "" : "s");
}

std::string human_quantity(double value, std::string_view unit) {
  static constexpr std::string_view prefixes[] = {"", "k", "M", "G", "T", "P", "E"};
  return text(scaled(value, 1000, prefixes), unit);
}

}  // namespace rapt
