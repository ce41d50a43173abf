// Every registered kernel that runs without a GPU, on random problems, through the conformance
// harness.
#include <gtest/gtest.h>

#include <set>

#include "src/verify/conformance.hpp"
#include "src/verify/generator.hpp"

namespace rapt {
namespace {

constexpr std::uint64_t cases = 300;

TEST(Conformance, EveryKernelIsRightWhereItSaysYesAndGivesASentenceWhereItSaysNo) {
  const Device device = Device::cpu(2);
  std::set<std::string> drawn;
  for (std::uint64_t seed = 1; seed <= cases; ++seed) {
    const Problem problem = verify::random_problem(seed);
    verify::Case one(problem, device, seed);
    for (const std::string& feature : verify::features_of(problem)) drawn.insert(feature);
    for (const KernelInfo& kernel : kernels()) {
      if (kernel.backend != device.backend) continue;
      const verify::Outcome outcome = one.run(kernel.name);
      if (outcome.verdict == verify::Verdict::passed) continue;
      EXPECT_EQ(outcome.verdict, verify::Verdict::refused) << outcome.sentence << "\n"
                                                           << one.command(kernel.name);
      EXPECT_FALSE(outcome.sentence.empty()) << one.command(kernel.name);
    }
  }
  for (const std::string& feature : verify::all_features()) {
    EXPECT_TRUE(drawn.contains(feature)) << feature << " was never drawn";
  }
}

// The kinds of row that random problems rarely bring: long ones, very wide ones, and far more
// queries than keys.
TEST(Conformance, EveryKernelIsRightOnLongRowsAndWideHeads) {
  const Device device = Device::cpu(2);
  for (const char* text :
       {"b1 h1 q2 kv40000 d8 f32 lse", "b1 h2 q1 kv20000 d16 bf16", "b1 h1 q3 kv20 d8192 f32",
        "b1 h2/1 q2 kv9 d4096/16 f16 causal", "b1 h1 q500 kv3 d4 f32 causal lse",
        "b1 h1 q5000 kv1 d4 bf16 sink lse", "b70000 h1 q1 kv2 d2 f16"}) {
    verify::Case one(Problem::parse(text), device, 5);
    for (const KernelInfo& kernel : kernels()) {
      if (kernel.backend != device.backend) continue;
      const verify::Outcome outcome = one.run(kernel.name);
      EXPECT_NE(outcome.verdict, verify::Verdict::failed) << outcome.sentence << "\n"
                                                          << one.command(kernel.name);
    }
  }
}

}  // namespace
}  // namespace rapt
