// cuda.flash_mma where there may be no GPU: what it takes, what it refuses, how it splits keys.
#include "tests/cuda/support.hpp"

namespace rapt::test {
namespace {

std::string refusal(const char* problem, const Device& device = imagined_hopper()) {
  return refusal_of("cuda.flash_mma", problem, device);
}

Config first_config(const char* problem) {
  return find_kernel("cuda.flash_mma").configs(Problem::parse(problem), imagined_hopper()).front();
}

TEST(FlashMma, TakesEveryFeatureInEveryType) {
  for (const char* problem :
       {"b1 h16 s2048 d64 f32", "b1 h16 s2048 d64 f32 tf32", "b1 h1 q20 kv0 d64 f16",
        "b2 h4/2 q3 kv300 d40/72 f16 causal window64 softcap30 alibi sinks align2",
        "b3 h8/2 q1 kv700 d128 bf16 kv_lengths page16 lse", "b1 h1 s20 d256 f32 bias:qk mask:k",
        "b4 h2 s60 d192/128 f32 causal varlen", "b2 h4/2 s20 d64 f32 k@0,128,64"}) {
    EXPECT_EQ(refusal(problem), "") << problem;
  }
}

TEST(FlashMma, SaysWhatIsInTheWayOfOtherProblems) {
  Device turing = imagined_hopper();
  turing.features = "sm_75";
  EXPECT_EQ(refusal("b1 h1 s20 d64 f16", turing).find("this build has no code for sm_75"), 0u);
  EXPECT_EQ(refusal("b1 h1 s20 d512 f16"), "it takes head dims up to 256; this problem has 512");
  EXPECT_EQ(refusal("b1 h1 s20 d4 f32"),
            "it takes f32 with head dims of 8 or more; this problem has 4");
  EXPECT_EQ(refusal("b1 h1 s20 d64 f16 offset5000000000"),
            "it takes offsets up to 1000000000; this problem has 5000000000");
}

TEST(FlashMma, SplitsKeysWhereRowsDoNotFillTheChip) {
  EXPECT_EQ(first_config("b32 h8 s1024 d128 f32").at("splits"), 1);
  EXPECT_GT(first_config("b1 h32/8 q8 kv32768 d128 bf16 causal").at("splits"), 8);
  EXPECT_EQ(first_config("b1 h32/8 q8 kv32768 d128 bf16 batch-invariant").at("splits"), 1);
}

TEST(FlashMma, IsChosenOrNotByNothingThatABatchOfOneCannotTell) {
  const auto chosen = [](const char* problem) {
    return explain(Problem::parse(problem), imagined_hopper()).kernel;
  };
  EXPECT_EQ(chosen("b3 h4 s3 d64 f16 causal bias:bhqk:f32 alibi:b varlen batch-invariant"),
            chosen("b1 h4 s3 d64 f16 causal bias:hqk:f32 alibi varlen batch-invariant"));
  EXPECT_EQ(chosen("b3 h3 q47 kv50 d8/64 f16 bias:bqk:f32 mask:bqk varlen align2 batch-invariant"),
            chosen("b1 h3 q47 kv50 d8/64 f16 bias:qk:f32 mask:qk varlen align2 batch-invariant"));
}

TEST(FlashMma, HasSmallTilesForTheRowsOfAGroup) {
  EXPECT_EQ(first_config("b16 h32/8 q4 kv8192 d128 bf16").at("rows"), 16);
  EXPECT_EQ(first_config("b16 h64/1 q1 kv8192 d128 bf16").at("rows"), 64);
  EXPECT_EQ(first_config("b32 h8 s1024 d64 f32").at("rows"), 128);
}

}  // namespace
}  // namespace rapt::test
