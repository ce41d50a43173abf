// NaN, infinities and huge scores on every kernel of a GPU.
#include "tests/conformance/not_a_number.hpp"
#include "tests/cuda/support.hpp"

namespace rapt::test {
namespace {

class CudaSpecialValues : public OnCuda {};

TEST_F(CudaSpecialValues, GiveWhatIeeeArithmeticMakesOfTheFormulaInEveryKernel) {
  const std::set<std::string> ran = expect_special_values(device);
  for (const KernelInfo& kernel : kernels()) {
    if (kernel.backend != device.backend || kernel.operation != Operation::forward) continue;
    EXPECT_TRUE(ran.contains(std::string(kernel.name))) << kernel.name << " took no case";
  }
}

}  // namespace
}  // namespace rapt::test
