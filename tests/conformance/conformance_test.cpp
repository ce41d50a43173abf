// Every registered kernel on every device of this machine, on random problems, through the
// conformance harness.
#include <gtest/gtest.h>

#include <set>

#include "src/verify/conformance.hpp"
#include "src/verify/generator.hpp"

namespace rapt {
namespace {

constexpr std::uint64_t cases = 300;

// The CPU with two threads, whatever the machine has, and every GPU.
std::vector<Device> devices_to_test() {
  std::vector<Device> result = devices();
  result.front() = Device::cpu(2);
  return result;
}

void expect_every_kernel_keeps_its_promise(const Problem& problem, const Device& device,
                                           std::uint64_t seed) {
  verify::Case one(problem, device, seed);
  for (const KernelInfo& kernel : kernels()) {
    if (kernel.backend != device.backend) continue;
    const verify::Outcome outcome = one.run(kernel.name);
    const std::string command = one.command(kernel.name, outcome.config);
    EXPECT_TRUE(outcome.verdict != verify::Verdict::failed) << outcome.sentence << "\n" << command;
    const bool silent = outcome.verdict == verify::Verdict::refused && outcome.sentence.empty();
    EXPECT_FALSE(silent) << command;
  }
}

TEST(Conformance, EveryKernelIsRightWhereItSaysYesAndGivesASentenceWhereItSaysNo) {
  for (const Device& device : devices_to_test()) {
    for (std::uint64_t seed = 1; seed <= cases; ++seed) {
      expect_every_kernel_keeps_its_promise(verify::random_problem(seed), device, seed);
    }
  }
}

TEST(Conformance, RandomProblemsShowEveryFeature) {
  std::set<std::string> drawn;
  for (std::uint64_t seed = 1; seed <= cases; ++seed) {
    for (const std::string& feature : verify::features_of(verify::random_problem(seed))) {
      drawn.insert(feature);
    }
  }
  for (const std::string& feature : verify::all_features()) {
    EXPECT_TRUE(drawn.contains(feature)) << feature << " was never drawn";
  }
}

// The kinds of row that random problems rarely bring: long ones, very wide ones, and far more
// queries than keys.
TEST(Conformance, EveryKernelIsRightOnLongRowsAndWideHeads) {
  for (const Device& device : devices_to_test()) {
    for (const char* text :
         {"b1 h1 q2 kv40000 d8 f32 lse", "b1 h2 q1 kv20000 d16 bf16", "b1 h1 q3 kv20 d8192 f32",
          "b1 h2/1 q2 kv9 d4096/16 f16 causal", "b1 h1 q500 kv3 d4 f32 causal lse",
          "b1 h1 q5000 kv1 d4 bf16 sink lse", "b70000 h1 q1 kv2 d2 f16"}) {
      expect_every_kernel_keeps_its_promise(Problem::parse(text), device, 5);
    }
  }
}

}  // namespace
}  // namespace rapt
