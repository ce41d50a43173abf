// Kernels of Hopper's own instructions on a model of the chip, through the conformance harness.
#include "tests/conformance/support.hpp"

#include <string>

#include "src/core/text.hpp"
#include "src/verify/generator.hpp"
#include "src/verify/random.hpp"

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

// Where warpgroups split the dims: tiles of 96 and of 80 keys, parts of dq with and without a
// buffer of their own, and what is put down transposed.
TEST(HopperConformance, BackwardIsRightWhereDimsAreSplit) {
  expect_right({"b1 h1 s600 d192 bf16 causal backward", "b1 h1 s600 d256 f16 causal backward",
                "b1 h2/1 q200 kv330 d192/128 f16 backward dlse",
                "b1 h2/1 q330 kv200 d200/256 bf16 causal backward dk:f32",
                "b3 h2 s150 d256 bf16 causal varlen backward",
                "b2 h2 q130 kv250 d192 bf16 window60:30 offset90 kv_lengths backward dq:f32 dv:f32",
                "b2 h1 s170 d256 f16 sinks softcap5 alibi dropout0.2 backward:sinks",
                "b1 h2 s170 d192 bf16 bias:hqk mask:bk dropout0.3 backward",
                "b2 h2 s200 d248 bf16 causal backward batch-invariant",
                "b1 h1 q64 kv0 d256 bf16 backward", "b2 h1 q0 kv100 d192 bf16 backward"});
}

// Of more than 128 dims, and of a size that takes some tiles.
Problem draw_wide_problem(verify::Random& random) {
  const auto dim = [&] { return 8 * random.between(17, 32); };
  const std::int64_t kv_heads = random.between(1, 2),
                     group = random.one_of<std::int64_t>({1, 1, 2, 3});
  std::string problem = text("b", random.between(1, 3), " h", kv_heads * group, "/", kv_heads, " q",
                             random.between(1, 260), " kv", random.between(1, 330), " d",
                             random.chance(0.3) ? 8 * random.between(1, 16) : dim(), "/", dim(),
                             random.chance(0.5) ? " bf16" : " f16", " backward");
  switch (random.below(5)) {
    case 0: problem += " causal"; break;
    case 1: problem += text(" causal window", random.between(0, 200)); break;
    case 2: problem += text(" window", random.between(0, 200), ":", random.between(0, 100)); break;
    default: break;
  }
  const auto sometimes = [&](double share, const std::string& token) {
    if (random.chance(share)) problem += token;
  };
  sometimes(0.3, text(" offset", random.between(-100, 200)));
  sometimes(0.3, " varlen");
  sometimes(0.3, " kv_lengths");
  sometimes(0.2, " softcap5");
  sometimes(0.2, " alibi");
  sometimes(0.2, " sinks");
  problem += random.one_of<const char*>({"", "", "", " batch-invariant", " dropout0.3"});
  sometimes(0.2, " dlse");
  sometimes(0.2, " dk:f32");
  sometimes(0.2, " dv:f32");
  sometimes(0.2, " scale-0.3");
  return Problem::parse(problem);
}

TEST(HopperConformance, RandomGradientsAreRightWhereDimsAreSplit) {
  for (std::uint64_t seed = 1; seed <= cases_to_run(20); ++seed) {
    verify::Random random(seed);
    const Problem problem = draw_wide_problem(random);
    verify::Case one(problem, model(), seed);
    expect_kernel_keeps_its_promise(one, "emu.flash_wgmma_backward_wide");
  }
}

TEST(HopperConformance, GradientsOfMoreRowsThanTwoSpansArePromotedTwice) {
  verify::Case one(Problem::parse("b1 h10/1 q1700 kv100 d64 bf16 backward"), model(), 3);
  expect_kernel_keeps_its_promise(one, "emu.flash_wgmma_backward");
}

}  // namespace
}  // namespace rapt::test
