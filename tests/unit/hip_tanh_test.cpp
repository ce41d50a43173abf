// The hyperbolic tangent that device code for AMD GPUs uses, here with the host's 2^x.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "src/hip/tanh.hpp"

namespace rapt::test {
namespace {

float tangent(float x) {
  return hip::hyperbolic_tangent(x, [](float y) { return std::exp2(y); });
}

TEST(HipTanh, IsWithinTwoUnitsInTheLastPlaceOfTheLibrarys) {
  for (float x = 1e-30f; x < 20; x *= 1.0001f) {
    const double expected = std::tanh(double(x));
    const double unit = std::ldexp(1.0, std::ilogb(expected) - 23);
    ASSERT_LE(std::abs(tangent(x) - expected), 2 * unit) << "x = " << x;
    ASSERT_EQ(tangent(-x), -tangent(x)) << "x = " << x;
  }
}

TEST(HipTanh, KeepsZeroAndNanAndEndsInOne) {
  EXPECT_EQ(tangent(0), 0);
  EXPECT_EQ(tangent(std::numeric_limits<float>::infinity()), 1);
  EXPECT_EQ(tangent(-std::numeric_limits<float>::infinity()), -1);
  EXPECT_TRUE(std::isnan(tangent(std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace
}  // namespace rapt::test
