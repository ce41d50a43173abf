// The table of NVIDIA's GPUs beside the figures that their data sheets print.
#include "src/cuda/architectures.hpp"

#include "tests/cuda/support.hpp"

namespace rapt::test {
namespace {

// Tflop/s, dense, tensor cores with sums in f32; GB/s.
struct DataSheet {
  const char* chip;
  double f32, b16, tf32, bandwidth;
};
constexpr DataSheet data_sheets[] = {
    {"a100", 19.5, 312, 156, 2039},   {"h100", 67, 989, 494.5, 3350},
    {"h200", 67, 989, 494.5, 4800},   {"b200", 75, 2250, 1125, 8000},
    {"rtx3090", 35.6, 71, 35.6, 936}, {"rtx4090", 82.6, 165.2, 82.6, 1008},
    {"l40s", 91.6, 362, 181, 864},    {"rtx5090", 104.8, 209.5, 104.8, 1792},
    {"t4", 8.1, 65, 0, 320},
};

const cuda::Chip& chip_named(std::string_view name) {
  return *std::ranges::find(cuda::chips(), name, &cuda::Chip::name);
}

TEST(Architectures, ReachWhatDataSheetsPrint) {
  constexpr double tolerance = 0.03;
  EXPECT_EQ(cuda::chips().size(), std::size(data_sheets));
  for (const DataSheet& sheet : data_sheets) {
    const cuda::Chip& chip = chip_named(sheet.chip);
    const Limits limits = cuda::device_of(chip, -1).nominal;
    const double tf32 = chip.clock * chip.multiprocessors *
                        cuda::rates_per_clock(chip.capability, chip.device_name).tf32;
    EXPECT_NEAR(limits.f32_flops / 1e12, sheet.f32, tolerance * sheet.f32) << sheet.chip;
    EXPECT_NEAR(limits.matrix_flops / 1e12, sheet.b16, tolerance * sheet.b16) << sheet.chip;
    EXPECT_NEAR(tf32 / 1e12, sheet.tf32, tolerance * sheet.tf32) << sheet.chip;
    EXPECT_NEAR(limits.read_bandwidth / 1e9, sheet.bandwidth, tolerance * sheet.bandwidth)
        << sheet.chip;
  }
}

TEST(Architectures, OfGeForceHaveHalfTheRateOfOtherChipsWithTheSameCapability) {
  for (const int capability : {86, 89, 120}) {
    const double full = cuda::rates_per_clock(capability, "NVIDIA RTX PRO").b16;
    EXPECT_EQ(cuda::rates_per_clock(capability, "NVIDIA GeForce RTX").b16, full / 2);
  }
}

TEST(Architectures, OfNewerChipsAreTakenForTheLastOneKnown) {
  EXPECT_EQ(cuda::rates_per_clock(103, "").b16, cuda::rates_per_clock(100, "").b16);
  EXPECT_EQ(cuda::rates_per_clock(121, "").f32, cuda::rates_per_clock(120, "").f32);
  EXPECT_EQ(cuda::rates_per_clock(30, "").b16, 0);
}

TEST(Architectures, AreReadOffADevicesFeatures) {
  EXPECT_EQ(cuda::capability_of(imagined("rtx5090")), 120);
  EXPECT_EQ(cuda::capability_of(Device()), 0);
}

}  // namespace
}  // namespace rapt::test
