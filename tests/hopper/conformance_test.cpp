// Kernels of Hopper's own instructions on a model of the chip, through the conformance harness.
#include "tests/conformance/support.hpp"

#include "src/verify/generator.hpp"

namespace rapt::test {
namespace {

constexpr std::uint64_t cases = 100;

Device model() { return Device::parse("emu:0"); }

void expect_right(std::initializer_list<const char*> problems) {
  const bool all = cases_to_run(cases) == cases;
  int turn = 0;
  for (const char* text : problems) {
    if (all || ++turn % 3 == 0)
      expect_every_kernel_keeps_its_promise(Problem::parse(text), model(), 5);
  }
}

TEST(HopperConformance, EveryKernelIsRightWhereItSaysYesAndGivesASentenceWhereItSaysNo) {
  for (std::uint64_t seed = 1; seed <= cases_to_run(cases); ++seed) {
    for (const Operation operation : {Operation::forward, Operation::backward})
      expect_every_kernel_keeps_its_promise(verify::random_problem(seed, Backend::emu, operation),
                                            model(), seed);
  }
}

// Every tile of keys and queries, several of them, and several work tiles for a block; masks, pages
// and scores that are more than dot products across their edges.
TEST(HopperConformance, ForwardIsRightAcrossItsTilesAndWorkTiles) {
  expect_right(
      {"b1 h3 s400 d32 bf16 causal lse", "b2 h4/2 s300 d64 f16 causal window100 lse",
       "b1 h9 q64 kv200 d64 bf16", "b1 h2 s300 d96 bf16 dropout0.2 lse",
       "b1 h2/1 s330 d128 f16 causal softcap5 sinks lse", "b1 h2 s260 d192 bf16 causal",
       "b1 h1 s300 d192/128 bf16 window90:20+5", "b1 h1 s270 d256 f16 dropout0.4",
       "b3 h8/1 q2 kv300 d128 bf16 kv_lengths page16 lse",
       "b2 h2 q150 kv300 d64 bf16 bias:hqk mask:bk", "b3 h2 s200 d40 bf16 causal varlen lse",
       "b1 h2 s150 d64 f32 causal lse", "b1 h2/1 q40 kv150 d128 f32 dropout0.3 sinks",
       "b2 h2 q70 kv130 d256 f32 kv_lengths page7", "b1 h1 s140 d32 f32 softcap3 alibi lse"});
}

// Several laps and members of a team, with and without a way back, and teams whose sequences
// differ; spans of rows after which sums are promoted; what is empty.
TEST(HopperConformance, BackwardIsRightAcrossItsTilesLapsAndTeams) {
  expect_right(
      {"b1 h1 s1700 d64 bf16 causal backward", "b1 h2 s520 d128 f16 backward dlse",
       "b1 h10/1 q900 kv150 d32 f16 backward", "b1 h2/1 q300 kv900 d96/40 bf16 causal backward",
       "b4 h4/2 s300 d64 bf16 causal varlen backward",
       "b3 h2 q200 kv400 d128 bf16 window100:30 offset150 kv_lengths backward dq:f32 dv:f32",
       "b2 h2 s260 d128 bf16 sinks softcap5 alibi dropout0.2 backward:sinks",
       "b2 h2 s200 d64 f16 bias:hqk mask:bk dropout0.3 backward",
       "b3 h2 s400 d64 bf16 causal backward batch-invariant", "b2 h2 q64 kv0 d64 bf16 backward",
       "b2 h2 q0 kv64 d64 bf16 backward", "b0 h2 s64 d64 bf16 backward"});
}

TEST(HopperConformance, GradientsOfMoreRowsThanTwoSpansArePromotedTwice) {
  verify::Case one(Problem::parse("b1 h10/1 q1700 kv100 d64 bf16 backward"), model(), 3);
  expect_kernel_keeps_its_promise(one, "emu.flash_wgmma_backward");
}

}  // namespace
}  // namespace rapt::test
