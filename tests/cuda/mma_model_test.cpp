// The emulator's model of matrix units against the GPU, bit by bit: products of small integers,
// whose sums no tensor core has to cut off; matrices, copies and conversions of any bits.
#include "tests/cuda/mma_model.hpp"

#include "tests/cuda/support.hpp"
#include "tests/emulator/matrix_inputs.hpp"

namespace rapt::test {
namespace {

constexpr std::uint64_t seeds = 20;

class MatrixUnits : public OnCuda {};

TEST_F(MatrixUnits, MultiplySmallIntegersAsTheEmulatorDoes) {
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const auto f32 = with_low_parts(words_of(small_products<float>(seed)));
    EXPECT_EQ(multiplied_f32_on_gpu(f32), (emulated<Multiplies<EmulatedWarp, float>>(f32)));
    const auto f16 = words_of(small_products<F16>(seed));
    EXPECT_EQ(multiplied_f16_on_gpu(f16), (emulated<Multiplies<EmulatedWarp, F16>>(f16)));
    const auto bf16 = words_of(small_products<BF16>(seed));
    EXPECT_EQ(multiplied_bf16_on_gpu(bf16), (emulated<Multiplies<EmulatedWarp, BF16>>(bf16)));
  }
}

TEST_F(MatrixUnits, LoadMatricesAsTheEmulatorDoes) {
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const auto rows = rows_to_load(seed);
    EXPECT_EQ(loaded_on_gpu(rows), (emulated<LoadsMatrices<EmulatedWarp, false>>(rows)));
    EXPECT_EQ(loaded_transposed_on_gpu(rows), (emulated<LoadsMatrices<EmulatedWarp, true>>(rows)));
  }
}

TEST_F(MatrixUnits, CopyGroupsAndZerosAsTheEmulatorDoes) {
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const auto words = random_words(seed, 8);
    EXPECT_EQ(copied_on_gpu(words), emulated<CopiesAhead<EmulatedWarp>>(words));
  }
}

TEST_F(MatrixUnits, PackElementsAndTakeLowPartsAsTheEmulatorDoes) {
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const auto words = numbers(seed);
    EXPECT_EQ(converted_on_gpu(words), emulated<Converts<EmulatedWarp>>(words));
  }
}

}  // namespace
}  // namespace rapt::test
