// NaN, infinities and huge scores on the portable GPU kernels, with waves of 32 and of 64 lanes.
#include "tests/conformance/not_a_number.hpp"
#include "tests/conformance/support.hpp"

namespace rapt::test {
namespace {

constexpr std::uint64_t cases = 50;

class EmulatedSpecialValues : public testing::TestWithParam<const char*> {};

TEST_P(EmulatedSpecialValues, GiveWhatIeeeArithmeticMakesOfTheFormulaInEveryKernel) {
  const Device device = Device::parse(GetParam());
  const int step = cases_to_run(cases) == cases ? 3 : 15;
  const std::set<std::string> ran = expect_special_values(device, device.index, step);
  for (const KernelInfo& kernel : kernels()) {
    if (kernel.backend != device.backend || kernel.operation != Operation::forward) continue;
    const bool refuses = kernel.name == "emu.flash_mma" && device.index == 1;  // waves of 64
    EXPECT_EQ(ran.contains(std::string(kernel.name)), !refuses) << kernel.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Waves, EmulatedSpecialValues, testing::Values("emu:0", "emu:1"));

}  // namespace
}  // namespace rapt::test
