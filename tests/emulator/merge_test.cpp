// merge() by the GPUs' kernel, with waves of 32 and of 64 lanes.
#include <gtest/gtest.h>

#include "tests/conformance/random_merge.hpp"

namespace rapt::test {
namespace {

constexpr std::uint64_t cases = 150;

Partial one_row(float* out, float* lse, std::int64_t dim) {
  return {Tensor::dense(out, DType::f32, {1, 1, 1, dim}),
          Tensor::dense(lse, DType::f32, {1, 1, 1, 1})};
}

class EmulatedMerge : public testing::TestWithParam<const char*> {
 protected:
  const Device device = Device::parse(GetParam());
};

TEST_P(EmulatedMerge, IsRightWhateverTheSizesTypesStridesAndPlaceOfTheResult) {
  for (std::uint64_t seed = 0; seed < cases; ++seed)
    EXPECT_EQ(merge_fault(device, seed), "") << "seed " << seed;
}

TEST_P(EmulatedMerge, KeepsTheValuesOfASideBesideAnEmptyOne) {
  float out[] = {1.1f, -2.3f, 1e-30f}, nothing[] = {NAN, NAN, NAN}, result[3];
  float lse = 80.1f, empty = -INFINITY, result_lse;
  for (const bool first_is_empty : {true, false}) {
    const Partial side = one_row(out, &lse, 3), other = one_row(nothing, &empty, 3);
    merge(first_is_empty ? other : side, first_is_empty ? side : other,
          one_row(result, &result_lse, 3), device);
    EXPECT_EQ(bits({result, result + 3}), bits({out, out + 3}));
    EXPECT_EQ(result_lse, lse);
  }
}

TEST_P(EmulatedMerge, OfTwoEmptySidesIsZeroAndEmpty) {
  float nothing[] = {NAN}, result[] = {NAN}, empty = -INFINITY, result_lse = NAN;
  const Partial side = one_row(nothing, &empty, 1);
  merge(side, side, one_row(result, &result_lse, 1), device);
  EXPECT_EQ(bits({result[0]}), bits({0.0f}));
  EXPECT_EQ(result_lse, -INFINITY);
}

TEST_P(EmulatedMerge, PassesNaNOnFromEitherSidesLse) {
  for (const float other : {1.0f, -INFINITY, INFINITY}) {
    for (const bool in_first : {true, false}) {
      float out[] = {1}, result[] = {0}, nan = NAN, lse = other, result_lse = 0;
      merge(one_row(out, in_first ? &nan : &lse, 1), one_row(out, in_first ? &lse : &nan, 1),
            one_row(result, &result_lse, 1), device);
      EXPECT_TRUE(std::isnan(result[0]) && std::isnan(result_lse)) << other;
    }
  }
}

TEST_P(EmulatedMerge, OfAnInfiniteLseIsInfiniteAndItsOutNaN) {
  for (const float other : {1.0f, -INFINITY, INFINITY}) {
    for (const bool in_first : {true, false}) {
      float out[] = {1, 0}, result[] = {0, 0}, infinite = INFINITY, lse = other, result_lse = 0;
      merge(one_row(out, in_first ? &infinite : &lse, 2),
            one_row(out, in_first ? &lse : &infinite, 2), one_row(result, &result_lse, 2), device);
      EXPECT_TRUE(std::isnan(result[0]) && std::isnan(result[1])) << other;
      EXPECT_EQ(result_lse, INFINITY) << other;
    }
  }
}

TEST_P(EmulatedMerge, RefusesMoreRowsThanALaunchTakes) {
  // Nothing of it is touched.
  const auto address = [](int bit) { return reinterpret_cast<void*>(std::uintptr_t{1} << bit); };
  const auto partial = [&](std::int64_t batch, std::int64_t dim) {
    return Partial{Tensor::dense(address(50), DType::f32, {batch, 1, 1, dim}),
                   Tensor::dense(address(51), DType::f32, {batch, 1, 1, 1})};
  };
  for (const Partial& many : {partial(std::int64_t{1} << 31, 4), partial(1 << 27, 256)}) {
    EXPECT_TRUE(throws(ErrorCode::invalid_argument, "at once; merge the batch in parts",
                       [&] { merge(many, many, many, device); }));
  }
}

INSTANTIATE_TEST_SUITE_P(Waves, EmulatedMerge, testing::Values("emu:0", "emu:1"));

}  // namespace
}  // namespace rapt::test
