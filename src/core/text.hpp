// Small text helpers: messages put together from parts, numbers as they are written in problem
// strings.
#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

// Here, because nearly every source has this file: clang takes whatever library is installed.
#if (defined(_LIBCPP_VERSION) && _LIBCPP_VERSION < 190000) || \
    (defined(_GLIBCXX_RELEASE) && _GLIBCXX_RELEASE < 11)
#error "rapt needs libstdc++ 11, libc++ 19 or newer"
#endif

namespace rapt {

// The shortest text that reads back as the same value.
template <class Number>
requires std::is_arithmetic_v<Number> std::string number(Number value) {
  char digits[64];
  return {digits, std::to_chars(digits, digits + sizeof digits, value).ptr};
}

template <class Number>
std::optional<Number> parse_whole(std::string_view text) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

// Decimal, nan or inf, whatever the locale; libc++'s from_chars knows whole numbers only.
std::optional<float> parse_float(std::string_view text);
std::optional<double> parse_double(std::string_view text);

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  if constexpr (std::is_same_v<Number, float>)
    return parse_float(text);
  else if constexpr (std::is_same_v<Number, double>)
    return parse_double(text);
  else
    return parse_whole<Number>(text);
}

inline std::string part(std::string_view text) { return std::string(text); }
inline std::string part(char letter) { return std::string(1, letter); }
template <class Number>
requires std::is_arithmetic_v<Number> std::string part(Number value) { return number(value); }

// text("k has ", 3, " heads")
template <class... Parts>
std::string text(const Parts&... parts) {
  std::string result;
  (result.append(part(parts)), ...);
  return result;
}

// For people.
std::string human_bytes(double bytes);                            // "7.10 GiB"
std::string human_seconds(double seconds);                        // "12.3 µs"
std::string counted(std::int64_t count, std::string_view noun);   // "1 thread", "2 threads"
std::string human_quantity(double value, std::string_view unit);  // "153 Gflop/s", powers of ten

}  // namespace rapt
