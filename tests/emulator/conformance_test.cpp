// Every portable kernel in the emulator, with waves of 32 and of 64 lanes, through the conformance
// harness.
#include "tests/conformance/support.hpp"

#include "src/library/registry.hpp"
#include "src/verify/generator.hpp"

namespace rapt::test {
namespace {

constexpr std::uint64_t cases = 50;

std::vector<Device> emulators() { return {Device::parse("emu:0"), Device::parse("emu:1")}; }

TEST(EmulatorDevices, AreGpusWithMultiprocessorsAndOneThread) {
  for (const Device& device : emulators()) {
    EXPECT_EQ(device.threads, 1);
    EXPECT_EQ(device.multiprocessors, 8);
  }
  EXPECT_EQ(Device::cpu(3).multiprocessors, 0);
}

TEST(EmulatorConformance, EveryKernelIsRightWhereItSaysYesAndGivesASentenceWhereItSaysNo) {
  std::uint64_t seed = 0;
  for (const Device& device : emulators()) {
    for (std::uint64_t i = 0; i < cases_to_run(cases); ++i) {
      ++seed;
      expect_every_kernel_keeps_its_promise(verify::random_problem(seed, device.backend), device,
                                            seed);
    }
  }
}

// More rows, keys and dims than a block, a tile or a chunk has, and sizes that are no multiple of
// anything; 16 keys are the most that emu.tiny_kv takes. Where fewer cases are asked for, the two
// devices take turns.
TEST(EmulatorConformance, EveryKernelIsRightAcrossItsBlocksTilesAndChunks) {
  const bool all = cases_to_run(cases) == cases;
  std::int32_t turn = 0;
  for (const char* text :
       {"b1 h1 s150 d40 f32 causal lse", "b1 h4/2 q70 kv200 d64 bf16 causal window100",
        "b1 h1 q5 kv90 d600/700 f32 causal", "b2 h4/1 q2 kv500 d64 bf16 kv_lengths page16",
        "b1 h2/1 q3 kv300 d256 f16 window64:200 offset100 lse",
        "b1 h1 q110 kv130 d31/65 bf16 bias:qk mask:k alibi sinks lse",
        "b2 h2 q70 kv97 d7/3 bf16 varlen kv_lengths sinks lse", "b1 h1 q2 kv5 d3000 f32 lse",
        "b9 h4/2 q3 kv16 d24 f16 causal sinks lse", "b3 h4/2 q3 kv17 d256 f16 causal lse",
        "b1 h1 q1 kv9000 d8 f32 k@0,0,0 v@0,0,0 lse", "b1 h1 q70 kv90 d40 f32 causal scale-0.3 lse",
        "b2 h4/1 q2 kv300 d64 bf16 kv_lengths softcap5 scale-0.3",
        "b3 h2 q3 kv16 d24 f16 causal scale-0.5 sinks lse",
        "b1 h2/1 q40 kv150 d64 bf16 causal dropout0.3 lse",
        "b1 h1 q70 kv90 d8 f32 causal scale0"}) {
    ++turn;
    for (const Device& device : emulators()) {
      if (all || device.index == turn % 2)
        expect_every_kernel_keeps_its_promise(Problem::parse(text), device, 5);
    }
  }
}

TEST(EmulatorConformance, TheFirstKeysBesideAWindowAreSeenInTilesChunksAndPages) {
  for (const char* text :
       {"b1 h2 s65 d16 f32 causal window5+3 lse", "b1 h2 q1 kv300 d64 bf16 window50:3+100 page16",
        "b2 h2 q5 kv90 d8 f32 causal window9+64 alibi mask:bqk kv_lengths lse",
        "b1 h1 q3 kv1500 d520/16 f32 causal window40+33",
        "b3 h6/2 q2 kv700 d32 f16 causal window64+4 kv_lengths page16 lse",
        "b2 h2 q4 kv14 d16 f32 causal window3+2 varlen lse",
        "b1 h1 q140 kv300 d64 f16 window64:5+70 sinks lse"}) {
    expect_every_kernel_keeps_its_promise(Problem::parse(text), emulators().front(), 3);
  }
}

// All tiles, for prefill, for few rows and in between, and all splits of the keys; masks, pages and
// scores that are more than dot products across their edges.
TEST(EmulatorConformance, ProductsOfMatrixUnitsAreRightInAllTilesAndSplits) {
  const bool all = cases_to_run(cases) == cases;
  int turn = 0;
  for (const char* text :
       {"b1 h1 s140 d32 f32 causal lse", "b1 h1 q40 kv150 d64 f32 tf32 window50:20",
        "b1 h2/1 q70 kv140 d128 f32 sinks lse", "b1 h1 q66 kv70 d256 f32 tf32 causal",
        "b1 h1 q65 kv40 d200/256 f32", "b1 h1 q40 kv70 d20/32 f32 tf32",
        "b1 h1 q20 kv90 d128 f32 tf32", "b1 h2/1 s135 d24/32 f16 causal alibi",
        "b2 h2 q70 kv130 d64 bf16 varlen kv_lengths page16 lse",
        "b1 h1 q30 kv200 d128 f16 softcap5", "b1 h2/1 q36 kv100 d256 bf16 window60 lse",
        "b1 h1 q17 kv150 d40 bf16 bias:qk mask:k"}) {
    if (!all && ++turn % 3 > 0) continue;
    verify::Case one(Problem::parse(text), emulators().front(), 3);
    expect_kernel_keeps_its_promise(one, "emu.flash_mma");
  }
}

TEST(EmulatorConformance, EveryBackwardKernelIsRightWhereItSaysYes) {
  std::uint64_t seed = 0;
  for (const Device& device : emulators()) {
    for (std::uint64_t i = 0; i < cases_to_run(cases) * 2 / 5; ++i) {
      ++seed;
      expect_every_kernel_keeps_its_promise(
          verify::random_problem(seed, device.backend, Operation::backward), device, seed);
    }
  }
}

// All tiles, spans that end within a row, dbias with every axis broadcast and not, and the few
// pairs of wide heads and of huge batches.
TEST(EmulatorConformance, EveryBackwardKernelIsRightAcrossItsTilesSpansAndSlices) {
  std::int32_t turn = 0;
  for (const char* text :
       {"b1 h1 s150 d40 f32 causal backward dlse", "b1 h4/2 q70 kv100 d64 bf16 window40+5 backward",
        "b1 h2/1 q40 kv70 d100/128 f16 causal alibi softcap9 backward:alibi dq:f32 dk:f32 dv:f32",
        "b1 h1 q20 kv35 d256/200 f32 sinks backward:sinks", "b2 h1 q3 kv5 d600/700 f32 backward",
        "b2 h2 q70 kv40 d16 f32 varlen kv_lengths bias:hk alibi:b backward:bias,alibi",
        "b2 h2 q66 kv50 d16 bf16 bias:bqk softcap5 backward:bias", "b60 h2 q1 kv2 d16 f16 backward",
        "b2 h2 q40 kv34 d8 f32 causal bias:1 mask:qk backward:bias",
        "b1 h4/2 q70 kv100 d64 bf16 causal dropout0.3 backward"}) {
    expect_every_kernel_keeps_its_promise(Problem::parse(text),
                                          emulators()[static_cast<std::size_t>(++turn % 2)], 5);
  }
}

TEST(EmulatorConformance, ProductsOfMatrixUnitsNeedWavesOf32Lanes) {
  const Problem problem = Problem::parse("b1 h1 s20 d64 f16");
  const Kernel& kernel = find_kernel("emu.flash_mma");
  EXPECT_TRUE(kernel.supports(problem, emulators()[0]));
  EXPECT_EQ(kernel.supports(problem, emulators()[1]).refusal,
            "it needs waves of 32 lanes, which emu:0 has; this is emu:1, with 64");
}

TEST(EmulatorConformance, PackedSequencesMayHaveABoundBeyondTheRowsThereAre) {
  const Problem problem = Problem::parse("b2 h2 q50 kv15 d5 f16 varlen30 lse");
  for (const std::uint64_t seed : {1, 2, 3})
    expect_every_kernel_keeps_its_promise(problem, emulators().front(), seed);
}

}  // namespace
}  // namespace rapt::test
