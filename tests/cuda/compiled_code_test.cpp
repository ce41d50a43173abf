// GPUs that a build has code for, and what is said of the others.
#include "src/cuda/compiled_code.hpp"

#include "tests/cuda/support.hpp"

namespace rapt::test {
namespace {

bool runs(int capability, std::string_view architectures) {
  Device device = imagined_hopper();
  device.features = "sm_" + std::to_string(capability);
  return bool(cuda::has_code(device, architectures));
}

TEST(CompiledCode, OfPtxRunsOnItsArchitectureAndAllLaterOnes) {
  for (const int capability : {80, 86, 89, 90, 100, 120})
    EXPECT_TRUE(runs(capability, "80-virtual")) << capability;
  EXPECT_FALSE(runs(75, "80-virtual"));
}

TEST(CompiledCode, OfAMachineRunsWithinItsGeneration) {
  EXPECT_TRUE(runs(86, "80-real"));
  EXPECT_FALSE(runs(80, "86-real"));
  EXPECT_FALSE(runs(90, "80-real"));
  EXPECT_TRUE(runs(90, "80"));  // both
}

TEST(CompiledCode, OfOneChipOrFamilyRunsNowhereElse) {
  EXPECT_TRUE(runs(90, "90a-real"));
  for (const int capability : {80, 89, 100, 120}) {
    EXPECT_FALSE(runs(capability, "90a-real")) << capability;
    EXPECT_FALSE(runs(capability, "90a-virtual")) << capability;
  }
  EXPECT_FALSE(runs(103, "100a-real"));
  EXPECT_FALSE(runs(103, "100a-virtual"));
  EXPECT_TRUE(runs(103, "100f-real"));
  EXPECT_FALSE(runs(120, "100f-real"));
}

TEST(CompiledCode, ThatIsMissingIsASentenceWithWhatThereIs) {
  Device device = imagined("t4");
  EXPECT_EQ(cuda::has_code(device, "80-virtual,90a-real").refusal,
            "this build has no code for sm_75: it was compiled for 80-virtual,90a-real, and no "
            "kernel is written for less than sm_80");
  device.features = "sm_120";
  EXPECT_EQ(cuda::has_code(device, "90a-real").refusal,
            "this build has no code for sm_120: it was compiled for 90a-real; add 120-real to "
            "RAPT_CUDA_ARCHITECTURES");
}

TEST(CompiledCode, ThatIsMissingIsSaidByEveryKernelAndOnceByTheChoice) {
  const Problem problem = Problem::parse("b1 h1 q2 kv2 d64 f16");
  const Explanation explanation = explain(problem, imagined("t4"));
  EXPECT_EQ(explanation.kernel, "");
  for (const Candidate& candidate : explanation.candidates) {
    const bool hopper = candidate.kernel.starts_with("cuda.flash_wgmma");
    const char* sentence = hopper ? "it needs a Hopper GPU" : "this build has no code for sm_75";
    EXPECT_EQ(candidate.refusal.find(sentence), 0u) << candidate.kernel;
  }
  const auto said = explanation.reason.find("this build has no code");
  EXPECT_NE(said, std::string::npos);
  EXPECT_EQ(explanation.reason.find("this build has no code", said + 1), std::string::npos);
}

}  // namespace
}  // namespace rapt::test
