// f16 and bf16: every pattern survives the way to f32 and back, and rounding agrees with a slow one
// written in double arithmetic.
#include "src/core/float16.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace rapt::test {
namespace {

// A binary format: bits of the fraction, and the exponents of the least and largest normal numbers.
struct Format {
  int fraction_bits, least_exponent, largest_exponent;
};
constexpr Format f16_format = {10, -14, 15}, bf16_format = {7, -126, 127};

// The nearest number of the format, ties to even, by std::nearbyint on the value in units of its
// last place.
double rounded(const Format& format, float value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const int exponent = std::max(std::ilogb(value), format.least_exponent);
  const int last_place = exponent - format.fraction_bits;
  const double result =
      std::ldexp(std::nearbyint(std::ldexp(double(value), -last_place)), last_place);
  const double limit = std::ldexp(1.0, format.largest_exponent + 1);
  return std::abs(result) < limit ? result
                                  : std::copysign(std::numeric_limits<double>::infinity(), result);
}

std::vector<float> interesting_floats() {
  std::vector<float> result;
  std::mt19937 random(7);
  for (int i = 0; i < 300000; ++i) result.push_back(std::bit_cast<float>(std::uint32_t(random())));
  // Around every f16 exponent and half way between neighbours.
  for (int exponent = -28; exponent <= 17; ++exponent) {
    for (int numerator = 0; numerator < 4096; ++numerator) {
      const float exact = std::ldexp(1.0f + float(numerator) / 4096, exponent);
      for (const float near :
           {exact, std::nextafter(exact, 0.0f), std::nextafter(exact, 1e30f), -exact})
        result.push_back(near);
    }
  }
  for (const float edge :
       {0.0f, -0.0f, 65504.0f, 65519.99f, 65520.0f, 65536.0f, 0x1p-24f, 0x1p-25f, 0x1.000002p-25f,
        0x1p-149f, 0x1p-126f, 0x1.fffffep-127f, std::numeric_limits<float>::max(),
        std::numeric_limits<float>::infinity()}) {
    result.push_back(edge);
    result.push_back(-edge);
  }
  return result;
}

template <class Element>
void expect_nearest_even(const Format& format) {
  int failures = 0;
  for (const float value : interesting_floats()) {
    if (std::isnan(value)) continue;
    const float got = to_float(from_float<Element>(value));
    const double expected = rounded(format, value);
    if (double(got) == expected && std::signbit(got) == std::signbit(value)) continue;
    ADD_FAILURE() << std::hexfloat << value << " became " << got << ", not " << expected;
    if (++failures == 10) return;
  }
}

template <class Element>
void expect_round_trip() {
  for (std::uint32_t pattern = 0; pattern <= 0xffff; ++pattern) {
    const float value = to_float(Element{std::uint16_t(pattern)});
    const Element back = from_float<Element>(value);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(to_float(back))) << pattern;
      EXPECT_EQ(back.bits >> 15, pattern >> 15) << "a NaN keeps its sign";
    } else {
      EXPECT_EQ(back.bits, pattern);
    }
  }
}

TEST(Float16, EveryF16PatternSurvivesTheWayToF32AndBack) { expect_round_trip<F16>(); }
TEST(Float16, EveryBf16PatternSurvivesTheWayToF32AndBack) { expect_round_trip<BF16>(); }
TEST(Float16, F16RoundsToNearestWithTiesToEven) { expect_nearest_even<F16>(f16_format); }
TEST(Float16, Bf16RoundsToNearestWithTiesToEven) { expect_nearest_even<BF16>(bf16_format); }

TEST(Float16, F16PatternsMeanWhatTheStandardSays) {
  EXPECT_EQ(to_float(F16{0x3c00}), 1.0f);
  EXPECT_EQ(to_float(F16{0xc000}), -2.0f);
  EXPECT_EQ(to_float(F16{0x7bff}), 65504.0f);
  EXPECT_EQ(to_float(F16{0x0001}), 0x1p-24f);
  EXPECT_EQ(to_float(F16{0x03ff}), 1023 * 0x1p-24f);
  EXPECT_EQ(to_float(F16{0x0400}), 0x1p-14f);
  EXPECT_EQ(to_float(F16{0x7c00}), std::numeric_limits<float>::infinity());
  EXPECT_EQ(to_float(F16{0xfc00}), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(to_float(F16{0x7c01})));
  EXPECT_TRUE(std::signbit(to_float(F16{0x8000})));
}

#if defined(__x86_64__)
TEST(Float16, SubnormalsOfF16SurviveAThreadThatFlushesF32Subnormals) {
  constexpr unsigned flush_to_zero = 0x8000, denormals_are_zero = 0x0040;
  const unsigned mode = _mm_getcsr();
  for (std::uint16_t pattern = 1; pattern < 0x0400; ++pattern) {
    const volatile std::uint16_t bits = pattern;  // converted at run time, in this mode
    _mm_setcsr(mode | flush_to_zero | denormals_are_zero);
    const volatile float value = to_float(F16{bits});
    _mm_setcsr(mode);
    ASSERT_EQ(value, static_cast<float>(pattern) * 0x1p-24f);
  }
}
#endif

TEST(Float16, Bf16PatternsAreTheUpperHalfOfF32) {
  EXPECT_EQ(to_float(BF16{0x3f80}), 1.0f);
  EXPECT_EQ(to_float(BF16{0x0001}), 0x1p-133f);
  EXPECT_EQ(to_float(BF16{0x7f80}), std::numeric_limits<float>::infinity());
}

TEST(Float16, EveryNanOfF32StaysNan) {
  for (const std::uint32_t pattern : {0x7f800001u, 0x7f80ffffu, 0x7fbfffffu, 0x7fc00000u,
                                      0x7fffffffu, 0xff800001u, 0xffffffffu}) {
    const float nan = std::bit_cast<float>(pattern);
    EXPECT_TRUE(std::isnan(to_float(from_float<F16>(nan)))) << std::hex << pattern;
    EXPECT_TRUE(std::isnan(to_float(from_float<BF16>(nan)))) << std::hex << pattern;
  }
}

}  // namespace
}  // namespace rapt::test
