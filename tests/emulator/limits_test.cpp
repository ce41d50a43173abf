// The kernels that measure a GPU do the work that they are timed for.
#include "src/gpu/limits.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "src/emulator/launcher.hpp"

namespace rapt::gpu {
namespace {

constexpr int blocks = 3, vectors = blocks * StreamShape::vectors_of_block;

struct Memory {
  std::vector<Vector16> from = std::vector<Vector16>(vectors);
  std::vector<Vector16> to = std::vector<Vector16>(vectors);
};

float value(int vector, int element) { return static_cast<float>(4 * vector + element + 1); }

Memory after(LimitsParameters::What what, float factor, float addend = 1) {
  Memory memory;
  for (int i = 0; i < vectors; ++i) {
    for (int j = 0; j < 4; ++j) memory.from[static_cast<std::size_t>(i)].at[j] = value(i, j);
  }
  const LimitsParameters parameters = {
      .what = what,
      .vectors = vectors,
      .from = memory.from.data(),
      .to = memory.to.data(),
      .blocks = 2,
      .rounds = 2,
      .factor = factor,
      .addend = addend,
  };
  launch_limits<emulator::Launcher<32>>(parameters, {0, nullptr});
  return memory;
}

bool untouched(const Memory& memory) {
  for (const Vector16& vector : memory.to) {
    for (const float element : vector.at) {
      if (element != 0) return false;
    }
  }
  return true;
}

TEST(Limits, ACopyCopiesEveryVector) {
  const Memory memory = after(LimitsParameters::What::copy, 0);
  for (int i = 0; i < vectors; ++i) {
    for (int j = 0; j < 4; ++j)
      ASSERT_EQ(memory.to[static_cast<std::size_t>(i)].at[j], value(i, j)) << i << ", " << j;
  }
}

TEST(Limits, AReadWritesNothingUnlessItsSumIsTheFactor) {
  const float never = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(untouched(after(LimitsParameters::What::read, never)));
  float sum = 0;  // of the first thread: a read that leaves something out does not find it
  for (int i = 0; i < StreamShape::each; ++i) {
    for (int j = 0; j < 4; ++j) sum += value(i * StreamShape::threads, j);
  }
  EXPECT_EQ(after(LimitsParameters::What::read, sum).to[0].at[0], sum);
}

TEST(Limits, MultiplyAddsWriteNothingUnlessTheirSumIsNegative) {
  EXPECT_TRUE(untouched(after(LimitsParameters::What::multiply_add, 0.5f)));
  // Eight chains start below 300 each, and take 1000 off at every step.
  const int least = 8 * (300 - 1000 * 2 * MultiplyAddShape::steps);
  EXPECT_LT(after(LimitsParameters::What::multiply_add, 1, -1000).to[0].at[0], least);
}

}  // namespace
}  // namespace rapt::gpu
