// Division by a multiplication must be division, up to the largest numbers it is made for.
#include "src/gpu/divisor.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>

namespace rapt::gpu {
namespace {

constexpr std::int64_t largest = 0x7fffffff;

TEST(Divisor, QuotientAndRemainderAreThoseOfDivision) {
  for (const std::int64_t value :
       {std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, std::int64_t{7}, std::int64_t{16},
        std::int64_t{641}, std::int64_t{65535}, std::int64_t{65537}, std::int64_t{0x40000001},
        largest - 1, largest}) {
    const Divisor by = divisor(value);
    // The last dividend of a quotient and the first of the next are where rounding would show.
    for (const std::int64_t quotient : {std::int64_t{0}, std::int64_t{1}, largest / value / 2,
                                        largest / value - 1, largest / value}) {
      for (const std::int64_t dividend : {quotient * value - 1, quotient * value}) {
        if (dividend < 0 || dividend > largest) continue;
        const int n = static_cast<int>(dividend);
        EXPECT_EQ(by.quotient(n), dividend / value) << dividend << " / " << value;
        EXPECT_EQ(by.remainder(n), dividend % value) << dividend << " % " << value;
      }
    }
    EXPECT_EQ(by.quotient(static_cast<int>(largest)), largest / value) << largest << " / " << value;
  }
}

}  // namespace
}  // namespace rapt::gpu
