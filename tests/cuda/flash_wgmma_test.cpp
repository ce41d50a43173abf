// cuda.flash_wgmma where there may be no GPU: what it takes, what it refuses, what it estimates;
// and where there is one, problems that random ones seldom are.
#include <limits>

#include "tests/cuda/support.hpp"

namespace rapt::test {
namespace {

std::string refusal(const char* problem, const Device& device = imagined_hopper()) {
  return refusal_of("cuda.flash_wgmma", problem, device);
}

double seconds(const char* problem) { return seconds_of("cuda.flash_wgmma", problem); }

TEST(FlashWgmma, TakesEveryFeatureInSixteenBits) {
  for (const char* problem :
       {"b1 h16 s2048 d64 bf16",
        "b2 h4/2 q3 kv300 d40/72 f16 causal window64 softcap30 alibi sinks",
        "b3 h8/2 q1 kv700 d128 f16 kv_lengths page16 lse", "b1 h1 s20 d256 bf16 bias:qk mask:k",
        "b4 h2 s60 d192/128 bf16 causal varlen", "b1 h1 q20 kv0 d64 f16", "b0 h1 s20 d64 f16"}) {
    EXPECT_EQ(refusal(problem), "") << problem;
  }
}

TEST(FlashWgmma, SaysWhatIsInTheWayOfOtherProblems) {
  Device ampere = imagined_hopper();
  ampere.features = "sm_80";
  EXPECT_EQ(refusal("b1 h1 s20 d64 f16", ampere), "it needs a Hopper GPU, sm_90; this is sm_80");
  EXPECT_EQ(refusal("b1 h1 s20 d64 f32"), "it takes f16 and bf16; this problem is f32");
  EXPECT_EQ(refusal("b1 h1 s20 d512 f16"), "it takes head dims up to 256; this problem has 512");
  EXPECT_EQ(refusal("b1 h1 s20 d64 f16 align8"),
            "it needs q, k, v and out aligned to 16 bytes; this problem has align8");
  EXPECT_EQ(refusal("b1 h1 s20 d64 f16 offset5000000000"),
            "it takes offsets up to 1073741824; this problem has 5000000000");
  EXPECT_EQ(refusal("b2 h4/2 s20 d64 f16 k@0,128,64"),
            "it takes no broadcast q, k or v: copy them out");
  EXPECT_EQ(refusal("b2 h1 s1 d64 f16 varlen2/2 v@0,0,64"),
            "it takes no broadcast q, k or v: copy them out");
  EXPECT_EQ(refusal("b1 h1 q1 kv2000000000 d64 f16"),
            "it takes lengths up to 1073741824; this problem has 2000000000");
  EXPECT_EQ(refusal("b16384 h8 q1 kv131072 d128 bf16 page16 kv_lengths"), "");
}

TEST(FlashWgmma, ExpectsAMaskToSaveTimeAndAFewQueriesToLeaveTheChipIdle) {
  EXPECT_LT(seconds("b1 h16 s16384 d128 bf16 causal"), 0.6 * seconds("b1 h16 s16384 d128 bf16"));
  EXPECT_GT(seconds("b1 h4 q64 kv16384 d128 bf16"), 0.5 * seconds("b1 h4 q2048 kv16384 d128 bf16"));
}

TEST(FlashWgmma, ExpectsBiasesThatTmaTakesToCostLessThanOthers) {
  const double plain = seconds("b8 h16 s2048 d128 bf16");
  EXPECT_LT(seconds("b8 h16 s2048 d128 bf16 page16"), 1.15 * plain);
  EXPECT_LT(seconds("b8 h16 s2048 d128 bf16 bias:hqk"), 1.5 * plain);
  EXPECT_GT(seconds("b8 h16 s2048 d128 bf16 bias:hqk:f32"), 2 * plain);
  EXPECT_GT(seconds("b8 h16 s2048 d128 bf16 bias:hk"), 2 * plain);
}

TEST(FlashWgmma, ExpectsALongSequenceAmongShortOnesToTakeLittleMoreThanAlone) {
  EXPECT_LT(seconds("b1024 h32/8 q8192 kv8192 d128 bf16 causal varlen9215"),
            1.5 * seconds("b1 h32/8 s8192 d128 bf16 causal"));
}

TEST_F(OnCuda, FlashWgmmaIsRightAtTheEdgesOfItsWays) {
  expect_right(
      "cuda.flash_wgmma",
      {
          "b12 h2 q700 kv700 d64 bf16 causal varlen900",  // most sequences are far shorter
          "b9 h28/4 q2000 kv300 d64 bf16 varlen2500/900 sinks",
          "b2 h14/2 q1 kv5000 d128 bf16 lse",  // rows that do not exist; sums promoted
          "b1 h1 q200 kv9000 d64 f16 causal lse",
          "b1 h1 q70 kv40000 d128 bf16 lse",               // output promoted
          "b1 h1 s64 d64 bf16 causal softcap10000000000",  // a polynomial whose factors vanish
          "b1 h1 s64 d64 bf16 causal softcap30 scale1e-8",
          "b1 h2 s200 d64 bf16 causal softcap5 scale-0.3",  // exponents fall as dot products rise
          "b1 h2 s200 d128 f16 causal scale-0.3 lse",
          "b1 h2 s200 d64 bf16 causal scale0 lse",
          "b1 h1 q20 kv0 d64 f16",
          "b2 h4 s700 d64 bf16 causal window100+20 lse",  // a gap among the keys
          "b2 h2 q200 kv1500 d96 bf16 window64:5+4 page16 kv_lengths lse",
          "b1 h2 s400 d256 f16 causal window50+7 bias:hqk",
          // many work tiles for each block, of a few steps
          "b40 h16 q200 kv64 d128 bf16",
          "b40 h16 q200 kv200 d128 bf16 causal varlen6000",
          "b40 h16 s200 d128 f16 causal softcap30",
          "b40 h16 s200 d128 bf16 bias:hqk",
          "b40 h16 s200 d96 f16",
          "b60 h16 s200 d32 f16",
          "b60 h14/2 q150 kv90 d128 bf16 varlen6000/4000",
      });
}

// Nobody looks at them before a kernel does: they are clamped, and nothing is written elsewhere.
TEST_F(OnCuda, FlashWgmmaStaysWithinItsTensorsWhateverThePackedStarts) {
  constexpr std::int32_t least = std::numeric_limits<std::int32_t>::min();
  constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max();
  for (const std::int32_t wild : {least, least + 1000, -100000, -1, 801, 100000, most}) {
    for (const std::int64_t at : {0, 1, 3, 7}) {
      OneKernel one(Problem::parse("b7 h2 q300 kv300 d64 bf16 causal varlen800 lse"), device,
                    {.kernel = "cuda.flash_wgmma"}, 2);
      static_cast<std::int32_t*>(one.data.on_host().q_starts.data)[at] = wild;
      one.upload();
      one.run(nullptr);
      find_backend(Backend::cuda).wait(device, nullptr);
      EXPECT_TRUE(one.data.memory("out").guards_unchanged() &&
                  one.data.memory("lse").guards_unchanged() && one.workspace.guards_unchanged())
          << "start " << at << " is " << wild;
      EXPECT_EQ(one.data.changed_input(), "") << "start " << at << " is " << wild;
    }
  }
}

}  // namespace
}  // namespace rapt::test
