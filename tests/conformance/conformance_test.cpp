// Every registered kernel on every device of this machine, on random problems, through the
// conformance harness.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "src/core/text.hpp"
#include "src/verify/generator.hpp"
#include "tests/conformance/support.hpp"

namespace rapt::test {
namespace {

constexpr std::uint64_t cases = 300;

// The CPU with two threads, whatever the machine has, and every GPU. The emulator has problems of
// its own (tests/emulator).
std::vector<Device> devices_to_test() {
  std::vector<Device> result = devices();
  result.front() = Device::cpu(2);
  std::erase_if(result, [](const Device& device) { return device.backend == Backend::emu; });
  return result;
}

TEST(Conformance, EveryKernelIsRightWhereItSaysYesAndGivesASentenceWhereItSaysNo) {
  const std::uint64_t count = cases_to_run(cases);
  for (const Device& device : devices_to_test()) {
    std::printf("%s random problems on %s (%s)\n", number(count).c_str(),
                device.to_string().c_str(), device.features.c_str());
    for (std::uint64_t seed = 1; seed <= count; ++seed) {
      expect_every_kernel_keeps_its_promise(verify::random_problem(seed), device, seed);
    }
  }
}

// Its values are the reference's; where it writes them, and that it repeats them, is its own.
TEST(Conformance, TheOracleAsAKernelWritesWhatItShouldAndNothingElse) {
  const std::uint64_t count = std::min<std::uint64_t>(cases_to_run(cases), 50);
  for (std::uint64_t seed = 1; seed <= count; ++seed) {
    verify::Case one(verify::random_problem(seed), Device::cpu(2), seed);
    expect_kernel_keeps_its_promise(one, "cpu.oracle");
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

// More rows, keys and dims than a block, a tile or a chunk has, and sizes that are no multiple of
// anything; 16 keys are the most that cpu.tiny_kv takes.
TEST(Conformance, EveryKernelIsRightAcrossItsBlocksTilesAndChunks) {
  const std::uint64_t seeds = cases_to_run(cases) < cases ? 1 : 2;
  for (const Device& device : devices_to_test()) {
    for (const char* text : {"b1 h2 s300 d40 f32 causal lse",
                             "b1 h6/2 s270 d64 bf16 causal window100",
                             "b1 h1 q97 kv513 d600/700 f32 causal",
                             "b3 h8/2 q2 kv5000 d64 bf16 kv_lengths page16",
                             "b1 h2/1 q150 kv700 d64 bf16 window64:200 offset100 lse",
                             "b2 h3 q37 kv131 d33/17 f16 window20:5 softcap20 lse",
                             "b2 h2 q130 kv97 d7/3 bf16 varlen kv_lengths sinks lse",
                             "b1 h2 s201 d1 f32 lse",
                             "b1 h1 q110 kv600 d31/65 bf16 bias:qk mask:k alibi lse",
                             "b33 h4/2 q3 kv15 d24 f16 causal sinks lse",
                             "b33 h4/2 q3 kv16 d24 f16 causal sinks lse",
                             "b33 h4/2 q3 kv17 d24 f16 causal sinks lse",
                             "b1 h2 s300 d40 f32 causal scale-0.3 lse",
                             "b2 h4/2 q70 kv600 d64 bf16 kv_lengths softcap5 scale-0.3",
                             "b9 h4/2 q3 kv16 d24 f16 causal scale-0.5 sinks lse",
                             "b1 h2 q3 kv600 d64 bf16 window400:0 scale0 lse",
                             "b1 h6/2 s600 d64 bf16 causal window70+4 lse",
                             "b1 h4/2 q150 kv900 d64 bf16 causal dropout0.3 lse",
                             "b9 h4/2 q3 kv16 d24 f16 dropout0.6 lse",
                             "b2 h2 q150 kv700 d24 f16 window40:9+300",
                             "b1 h4/1 q3 kv9000 d64 bf16 window600+700 page16 lse",
                             "b1 h1 q97 kv513 d600/700 f32 causal window20+130",
                             "b9 h4/2 q3 kv16 d24 f16 causal window3+2 alibi sinks lse"}) {
      for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        expect_every_kernel_keeps_its_promise(Problem::parse(text), device, seed);
      }
    }
  }
}

// What random problems rarely come to: weights that are alike, which round alike, with a sink and
// where a row sees one key; and a value that is no number, which some rows alone see.
TEST(Conformance, EveryKernelIsRightWhereWeightsAreAlike) {
  const std::pair<const char*, std::uint64_t> problems[] = {
      {"b1 h1 q150 kv127 d40/80 bf16 offset-140 mask:q softcap1 sinks kv_lengths58 page1 "
       "q@0,129,0 mask@0,0,2 scale0.453125 lse",
       11190862},
      {"b1 h2 q33 kv175 d20/40 bf16 out:f32 offset89 mask:h q@0,0,20 lse align2", 771190000},
      {"b2 h28/4 q127 kv1 d192 bf16 bias:bh:f32 alibi kv_lengths scale0.03125 align4", 991208012},
      {"b1 h4 q200 kv15 d12/24 bf16 causal mask:k lse", 991194353},
      {"b1 h2 q300 kv300 d16 f32 causal window40 batch-invariant:rows lse", 200}};
  for (const Device& device : devices_to_test()) {
    const bool is_cpu = device.backend == Backend::cpu;
    for (const auto& [text, seed] : problems)
      expect_every_kernel_keeps_its_promise(Problem::parse(text), is_cpu ? Device::cpu(1) : device,
                                            seed);
  }
}

// The kinds of row that random problems rarely bring: long ones, very wide ones, and far more
// queries than keys.
TEST(Conformance, EveryKernelIsRightOnLongRowsAndWideHeads) {
  for (const Device& device : devices_to_test()) {
    for (const char* text :
         {"b1 h1 q2 kv60000 d8 f32 k@0,0,0 v@0,0,0 lse", "b1 h1 q9 kv9000 d520 f32 v@0,0,0 lse",
          "b1 h1 q2 kv60000 d8 f32 causal window9000+30000 k@0,0,0 v@0,0,0 lse",
          "b1 h2 q1 kv20000 d16 bf16", "b1 h1 q3 kv20 d8192 f32",
          "b1 h2/1 q2 kv9 d4096/16 f16 causal", "b1 h1 q500 kv3 d4 f32 causal lse",
          "b1 h1 q5000 kv1 d4 bf16 sinks lse", "b70000 h1 q1 kv2 d2 f16"}) {
      expect_every_kernel_keeps_its_promise(Problem::parse(text), device, 5);
    }
  }
}

}  // namespace
}  // namespace rapt::test
