// Operations of matrix units in the emulator, against the layouts that src/gpu/target.hpp
// documents.
#include <gtest/gtest.h>

#include "tests/emulator/matrix_inputs.hpp"

namespace rapt::test {
namespace {

template <class Element>
void expect_product(const std::vector<std::uint32_t>& words,
                    const std::vector<SmallProduct<Element>>& products) {
  const auto c = emulated<Multiplies<EmulatedWarp, Element>>(words);
  for (int thread = 0; thread < warps * warp_size; ++thread) {
    const int g = thread % warp_size / 4, t = thread % 4;
    for (int i = 0; i < 4; ++i)
      EXPECT_EQ(c[thread * 4 + i],
                word_of_f32(products[thread / warp_size].result(g + i / 2 * 8, 2 * t + i % 2)))
          << "c[" << i << "] of thread " << thread;
  }
}

template <class Element>
class EmulatedMma : public testing::Test {};
using Elements = testing::Types<float, F16, BF16>;
TYPED_TEST_SUITE(EmulatedMma, Elements);

TYPED_TEST(EmulatedMma, MultipliesFragmentsAsTheyAreDocumentedToLie) {
  const auto products = small_products<TypeParam>(1);
  expect_product(words_of(products), products);
}

TEST(EmulatedMmaOfTf32, IgnoresTheLow13BitsOfBothOperands) {
  const auto products = small_products<float>(2);
  expect_product(with_low_parts(words_of(products)), products);
}

// Two warps hold 2 × 32 rows of 16 bytes.
TEST(EmulatedLdmatrix, GivesLanesFourBytesOfTheRowsThatLanesName) {
  const auto in = rows_to_load(3);
  const auto out = emulated<LoadsMatrices<EmulatedWarp, false>>(in);
  for (int thread = 0; thread < warps * warp_size; ++thread) {
    const int first = thread / warp_size * warp_size, lane = thread % warp_size;
    for (int i = 0; i < 4; ++i) {
      const auto row = in[(first + 8 * i + lane / 4) * 5 + 4];
      EXPECT_EQ(out[thread * 4 + i], in[(first + row) * 5 + lane % 4]) << thread;
    }
  }
}

TEST(EmulatedLdmatrix, TransposesMatricesOf16BitElements) {
  const auto in = rows_to_load(4);
  const auto out = emulated<LoadsMatrices<EmulatedWarp, true>>(in);
  for (int thread = 0; thread < warps * warp_size; ++thread) {
    const int first = thread / warp_size * warp_size, lane = thread % warp_size;
    for (int i = 0; i < 4; ++i) {
      const auto element = [&](int row, int column) {
        const auto place = in[(first + 8 * i + row) * 5 + 4];
        return in[(first + place) * 5 + column / 2] >> column % 2 * 16 & 0xffff;
      };
      const int column = lane / 4, row = lane % 4 * 2;
      EXPECT_EQ(out[thread * 4 + i], element(row, column) | element(row + 1, column) << 16)
          << thread;
    }
  }
}

TEST(EmulatedCopies, ArriveInGroupsAndAreZeroWhereTheyAreNotWanted) {
  const auto in = random_words(5, 8);
  const auto out = emulated<CopiesAhead<EmulatedWarp>>(in);
  for (int thread = 0; thread < warps * warp_size; ++thread) {
    const int next = (thread + 1) % (warps * warp_size);
    for (int i = 0; i < 8; ++i) {
      const bool wanted = i < 4 || in[next * 8] % 2 == 1;
      EXPECT_EQ(out[thread * 8 + i], wanted ? in[next * 8 + i] : 0) << thread << " " << i;
    }
  }
}

TEST(EmulatedConversions, PackTheFirstInTheLowHalfAndLeaveWhatTf32DoesNotTake) {
  const float first = 1.0f / 3, second = -2;
  std::vector<std::uint32_t> in = random_words(6, 2);
  in[0] = std::bit_cast<std::uint32_t>(first);
  in[1] = std::bit_cast<std::uint32_t>(second);
  const auto out = emulated<Converts<EmulatedWarp>>(in);
  EXPECT_EQ(out[0], 0xc000'3555u);
  EXPECT_EQ(out[1], 0xc000'3eabu);
  const float high = std::bit_cast<float>(in[0] & 0xffffe000u);
  EXPECT_EQ(std::bit_cast<float>(out[2]) + high, first);
  EXPECT_NE(out[2], 0u);
}

}  // namespace
}  // namespace rapt::test
