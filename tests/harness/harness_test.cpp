// The conformance harness finds every fault it claims to find: each kernel of tests/broken commits
// one.
#include <gtest/gtest.h>

#include "src/verify/conformance.hpp"

namespace rapt {
namespace {

struct Fault {
  const char* kernel;
  const char* problem;
  const char* sentence;  // part of what the harness says
};

class Harness : public testing::TestWithParam<Fault> {};

TEST_P(Harness, FindsTheFaultAndPassesTheSoundKernel) {
  const auto& [kernel, problem, sentence] = GetParam();
  verify::Case one(Problem::parse(problem), Device::cpu(2), 12);
  const verify::Outcome sound = one.run("cpu.naive");
  EXPECT_EQ(sound.verdict, verify::Verdict::passed) << sound.sentence;
  const verify::Outcome outcome = one.run(kernel);
  EXPECT_EQ(outcome.verdict, verify::Verdict::failed);
  EXPECT_NE(outcome.sentence.find(sentence), std::string::npos) << outcome.sentence;
}

constexpr const char* plain = "b2 h4 s33 d32 f32";
constexpr const char* sixteen = "b2 h4/2 q5 kv300 d64 bf16 causal";

INSTANTIATE_TEST_SUITE_P(
    Faults, Harness,
    testing::Values(
        Fault{"cpu.wrong_value", plain, "the oracle says"},
        Fault{"cpu.wrong_value", sixteen, "the oracle says"},
        Fault{"cpu.wrong_lse", "b1 h2 s17 d16 f32 lse", "lse[sequence 0, head 0, query 0]"},
        Fault{"cpu.leaves_row", plain, "nan, the oracle says"},
        Fault{"cpu.leaves_row", "b1 h2 q40100 kv1 d2 f32", "left an element of out unwritten"},
        Fault{"cpu.writes_past_out", plain, "outside the rows of out"},
        Fault{"cpu.slightly_off", plain, "is allowed"},
        Fault{"cpu.writes_past_lse", "b1 h2 s17 d16 f32 lse", "outside the rows of lse"},
        Fault{"cpu.writes_past_workspace", plain, "outside its workspace"},
        Fault{"cpu.writes_input", plain, "changed its input q"},
        Fault{"cpu.ignores_lengths", "b3 h2 q3 kv40 d16 f32 kv_lengths", "nan, the oracle says"},
        Fault{"cpu.ignores_lengths", "b3 h2 q3 kv40 d16 f16 kv_lengths page4",
              "nan, the oracle says"},
        Fault{"cpu.changes_every_run", plain, "a second run gives other bits"},
        Fault{"cpu.depends_on_threads", plain, "a second run gives other bits"},
        Fault{"cpu.depends_on_batch", "b2 h4 s33 d32 f32 batch-invariant",
              "gives other bits than in its batch"},
        Fault{"cpu.depends_on_queries", "b2 h4 s33 d32 f32 batch-invariant:rows",
              "gives other bits than among others"},
        Fault{"cpu.silent_alone", "b2 h4 s33 d32 f32 batch-invariant",
              "left an element of out unwritten"},
        Fault{"cpu.breaks_promise", plain, "not today"}));

TEST(Harness, FindsNaNThatVanishesInSomeOfItsCases) {
  int found = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    verify::Case one(Problem::parse("b1 h2 s9 d8 f32"), Device::cpu(1), seed);
    EXPECT_EQ(one.run("cpu.naive").verdict, verify::Verdict::passed) << "seed " << seed;
    const verify::Outcome outcome = one.run("cpu.hides_nan");
    found += outcome.verdict == verify::Verdict::failed &&
             outcome.sentence.find("it must not be finite") != std::string::npos;
  }
  EXPECT_GE(found, 2);
}

TEST(Harness, RepeatsACaseFromItsCommandLine) {
  const verify::Case one(Problem::parse("b2 h4/2 q5 kv9 d8 f16 causal"), Device::cpu(2), 77);
  EXPECT_EQ(
      one.command("cpu.naive"),
      "rapt verify \"b2 h4/2 q5 kv9 d8 f16 causal\" --device cpu --kernel cpu.naive --seed 77 "
      "--threads 2");
}

}  // namespace
}  // namespace rapt
