// cuda.flash_wgmma_f32 where there may be no GPU: what it takes, what it refuses, what it
// estimates; and where there is one, problems that random ones seldom are.
#include "tests/cuda/support.hpp"

namespace rapt::test {
namespace {

std::string refusal(const char* problem, const Device& device = imagined_hopper()) {
  return refusal_of("cuda.flash_wgmma_f32", problem, device);
}

double seconds(const char* problem) { return seconds_of("cuda.flash_wgmma_f32", problem); }

TEST(FlashWgmmaF32, TakesEveryFeature) {
  for (const char* problem :
       {"b1 h16 s2048 d64 f32", "b1 h1 q20 kv0 d64 f32", "b0 h1 s20 d64 f32",
        "b2 h4/2 q3 kv300 d40/72 f32 causal window64 softcap30 alibi sinks align4",
        "b3 h8/2 q1 kv700 d128 f32 kv_lengths page16 lse", "b1 h1 s20 d96 f32 bias:qk mask:k",
        "b4 h2 s60 d8/128 f32 causal varlen", "b2 h4/2 s20 d64 f32 k@0,128,64"}) {
    EXPECT_EQ(refusal(problem), "") << problem;
  }
}

TEST(FlashWgmmaF32, SaysWhatIsInTheWayOfOtherProblems) {
  Device ampere = imagined_hopper();
  ampere.features = "sm_80";
  EXPECT_EQ(refusal("b1 h1 s20 d64 f32", ampere), "it needs a Hopper GPU, sm_90; this is sm_80");
  EXPECT_EQ(refusal("b1 h1 s20 d64 bf16"), "it takes f32; this problem is bf16");
  EXPECT_EQ(refusal("b1 h1 s20 d64 f32 tf32"),
            "it takes f32 with all its places; this problem says tf32");
  EXPECT_EQ(refusal("b1 h1 s20 d512 f32"), "it takes head dims up to 256; this problem has 512");
  EXPECT_EQ(refusal("b1 h1 s20 d4 f32"), "it takes head dims of 8 or more; this problem has 4");
  EXPECT_EQ(refusal("b1 h1 s20 d64 f32 offset5000000000"),
            "it takes offsets up to 1000000000; this problem has 5000000000");
  EXPECT_EQ(refusal("b1 h1 q1 kv2000000000 d64 f32"),
            "it takes lengths and pages up to 1000000000; this problem has 2000000000");
}

TEST(FlashWgmmaF32, ExpectsAMaskToSaveTimeAndAFewQueriesToLeaveTheChipIdle) {
  EXPECT_LT(seconds("b1 h16 s8192 d64 f32 causal"), 0.6 * seconds("b1 h16 s8192 d64 f32"));
  EXPECT_GT(seconds("b1 h4 q128 kv8192 d128 f32"), 0.9 * seconds("b1 h4 q2048 kv8192 d128 f32"));
}

TEST(FlashWgmmaF32, ExpectsToBeAheadOfSmallerProductsWhereRowsFillTheChip) {
  for (const char* text :
       {"b1 h16 s2048 d64 f32", "b32 h8 s1024 d128 f32 causal", "b32 h8 s1024 d32 f32",
        "b4 h8 s1024 d256 f32", "b4 h16 s2048 d128 f32 softcap30"}) {
    const Problem problem = Problem::parse(text);
    const Device device = imagined_hopper();
    const Kernel& other = find_kernel("cuda.flash_mma");
    const Config config = other.configs(problem, device).front();
    EXPECT_LT(seconds(text), other.estimate({problem, device, config, nullptr}).seconds) << text;
  }
}

TEST_F(OnCuda, FlashWgmmaF32IsRightAtTheEdgesOfItsWays) {
  expect_right("cuda.flash_wgmma_f32",
               {
                   "b1 h2 s1 d128 f32 lse",                // one row, one key
                   "b1 h2 q65 kv63 d128 f32",              // a row in the second warpgroup
                   "b1 h2 q128 kv20000 d64 f32",           // sums and output set aside
                   "b1 h2 q300 kv20000 d32 f32 lse",       // the same in tiles of 128 keys
                   "b1 h1 s700 d128 f32 window64 causal",  // one warpgroup passes tiles over
                   "b2 h3 s200 d100/36 f32 align4",        // no access of 16 bytes
                   "b3 h8/2 q50 kv300 d128 f32 kv_lengths page7",
                   "b7 h2 q300 kv300 d64 f32 causal varlen800 sinks lse",
                   "b1 h2 s130 d128 f32 softcap5 bias:hqk mask:k alibi",
                   "b1 h2 s200 d64 f32 causal scale-0.3 lse",
                   "b1 h2 s200 d64 f32 causal scale0 lse",
                   "b1 h2 s300 d256 f32 causal lse",  // one warpgroup, output in parts
                   "b1 h2 q70 kv4500 d200/136 f32",
                   "b2 h2 s100 d192 f32 causal window30 alibi",
                   "b1 h1 q70 kv60000 d32 f32 k@0,0,0 v@0,0,0",  // all roundings go the same way
                   "b1 h1 q70 kv60000 d128 f32 k@0,0,0 v@0,0,0",
                   "b1 h2 q20 kv0 d64 f32 lse",
               });
}

}  // namespace
}  // namespace rapt::test
