#include "src/core/text.hpp"

#include <algorithm>
#include <cstdint>
#include <span>

namespace rapt {

namespace {

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

std::string human_bytes(double bytes) {
  static constexpr std::string_view units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return text(static_cast<std::int64_t>(bytes), " B");
  return scaled(bytes / 1024, 1024, units);
}

std::string human_seconds(double seconds) {
  static constexpr std::string_view units[] = {"µs", "ms", "s"};
  return scaled(seconds * 1e6, 1000, units);
}

std::string human_quantity(double value, std::string_view unit) {
  static constexpr std::string_view prefixes[] = {"", "k", "M", "G", "T", "P", "E"};
  return text(scaled(value, 1000, prefixes), unit);
}

}  // namespace rapt
