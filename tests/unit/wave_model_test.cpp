// The model of a GPU's time: what must hold whatever its constants are.
#include "src/portable/wave_model.hpp"

#include <gtest/gtest.h>

namespace rapt::gpu {
namespace {

Device small_gpu() {
  Device device;
  device.backend = Backend::cuda;
  device.features = "sm_90";
  device.multiprocessors = 10;
  device.nominal = {.f32_flops = 1e12, .matrix_flops = 10e12, .read_bandwidth = 1e12};
  return device;
}

constexpr KernelReach reach = {.rate = 0.5, .bandwidth = 0.8, .block_seconds = 1e-6};

// A block alone takes 100 µs of arithmetic.
Counts some_counts() {
  return {.blocks = 10,
          .keys = 1000,
          .most_keys = 1000,
          .step_keys = 10,
          .step_flops = 1e12 * 0.5 / 10 * 1e-6,
          .flops_per_second = 1e12};
}
double seconds(const Counts& counts, double splits = 1) {
  return WaveModel(small_gpu(), reach, counts).with(splits).seconds;
}

TEST(WaveModel, TakesAWholeWaveMoreForOneBlockMore) {
  Counts counts = some_counts();
  const double one_wave = seconds(counts);
  EXPECT_NEAR(one_wave, 100e-6, 5e-6);
  counts.blocks = 11;
  EXPECT_NEAR(seconds(counts), 2 * one_wave, 5e-6);
  counts.uneven = true;  // whoever is done takes the next
  EXPECT_NEAR(seconds(counts), 1.1 * one_wave, 5e-6);
}

TEST(WaveModel, NeverTakesLessThanTheLongestBlock) {
  Counts counts = some_counts();
  counts.uneven = true;
  counts.keys = 100;
  EXPECT_GT(seconds(counts), 100e-6);
}

TEST(WaveModel, TakesAsLongAsTheMemoryWhereThatIsLonger) {
  Counts counts = some_counts();
  counts.bytes = 0.8e12 * 1e-3;  // a millisecond
  const Estimate estimate = WaveModel(small_gpu(), reach, counts).whole();
  EXPECT_NEAR(estimate.seconds, 1e-3, 1e-5);
  EXPECT_EQ(estimate.bound, "memory");
  EXPECT_EQ(WaveModel(small_gpu(), reach, some_counts()).whole().bound, "compute");
}

TEST(WaveModel, AddsBytesThatAreMovedApart) {
  Counts counts = some_counts();
  const double without = seconds(counts);
  counts.apart_bytes = 0.8e12 * 1e-3;
  const Estimate estimate = WaveModel(small_gpu(), reach, counts).whole();
  EXPECT_NEAR(estimate.seconds, without + 1e-3, 1e-9);
  EXPECT_EQ(estimate.bound, "memory");
}

TEST(WaveModel, SplitsThatFillTheChipPayAndMoreDoNot) {
  Counts counts = some_counts();
  counts.blocks = 1;
  counts.partial_bytes = 1e4;
  EXPECT_LT(seconds(counts, 10), seconds(counts) / 3);
  EXPECT_GT(seconds(counts, 100), seconds(counts, 10));
  const double split = seconds(counts, 10);
  counts.partial_bytes *= 100;  // to be written, read and combined
  EXPECT_GT(seconds(counts, 10), split);
  counts.least_chunk = 1000;  // there is but one chunk
  EXPECT_EQ(seconds(counts, 10), seconds(counts));
}

TEST(WaveModel, HidesLatencyWhereBlocksShareAMultiprocessor) {
  KernelReach waiting = reach;
  waiting.step_seconds = 10e-6;
  waiting.alone = 0.5;
  Counts counts = some_counts();
  counts.resident = 4;
  counts.blocks = 40;
  const double shared = WaveModel(small_gpu(), waiting, counts).whole().seconds;
  counts.resident = 1;
  EXPECT_LT(shared, WaveModel(small_gpu(), waiting, counts).whole().seconds / 3);
}

TEST(WaveModel, CountsPagesAndScoreModsAgainstTheRate) {
  KernelReach slower = reach;
  slower.score_mod = 0.5;
  slower.paged.rate = 0.5;
  Counts counts = some_counts();
  const double plain = WaveModel(small_gpu(), slower, counts).whole().seconds;
  counts.score_mod = true;
  EXPECT_NEAR(WaveModel(small_gpu(), slower, counts).whole().seconds, 2 * plain, 5e-6);
  counts.paged = true;
  EXPECT_NEAR(WaveModel(small_gpu(), slower, counts).whole().seconds, 4 * plain, 15e-6);
}

TEST(Reach, IsMeasuredOnHopperAndNominalElsewhere) {
  Device device = small_gpu();
  EXPECT_TRUE(reach_of(device).measured);
  const double hopper = reach_of(device).mma_b16.rate.d128;
  for (const char* features : {"sm_80", "sm_89", "sm_100", "sm_120", "gfx942 wave64", "wave32"}) {
    device.features = features;
    EXPECT_FALSE(reach_of(device).measured) << features;
  }
  device.features = "sm_80";  // whose own instruction it is
  EXPECT_GT(reach_of(device).mma_b16.rate.d128, hopper);
}

}  // namespace
}  // namespace rapt::gpu
