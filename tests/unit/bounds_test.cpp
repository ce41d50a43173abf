// Plans whose sizes are bounds: which batches they take, which they refuse, what memory they ask
// for.
#include <gtest/gtest.h>

#include "tests/unit/support.hpp"

namespace rapt::test {
namespace {

// What a plan for `bounds` makes of a smaller batch's arguments.
void run_within(const char* bounds, const Example& batch, std::string_view kernel) {
  const Plan plan(Problem::parse(bounds), two_threads(), {.kernel = kernel});
  const Buffer workspace(two_threads(), plan.workspace_bytes());
  plan.run(batch.arguments, {.workspace = workspace.bytes()});
}

void expect_refused(const char* bounds, const char* batch, std::string_view sentence) {
  const Example example{std::string_view(batch)};
  try {
    run_within(bounds, example, "cpu.naive");
    ADD_FAILURE() << batch << " was taken";
  } catch (const Error& error) {
    EXPECT_NE(std::string_view(error.what()).find(sentence), std::string_view::npos)
        << error.what();
  }
}

TEST(Bounds, APlanForMoreGivesWhatAPlanOfItsOwnGives) {
  struct Pair {
    const char *bounds, *batch;
  };
  for (const auto& [bounds, batch] :
       {Pair{"b5 h4/2 q9 kv40 d16 f32 causal varlen30/90 lse",
             "b3 h4/2 q9 kv40 d16 f32 causal varlen20/50 lse@0,30,1 lse"},
        Pair{"b5 h4/2 q9 kv40 d16 f32 varlen30 kv_lengths page4",
             "b1 h4/2 q9 kv40 d16 f32 varlen7 kv_lengths page4"},
        Pair{"b5 h4/2 q3 kv40 d16 f32 kv_lengths page4",
             "b2 h4/2 q1 kv12 d16 f32 kv_lengths page4 q@192,64,16 out@192,64,16"},
        Pair{
            "b4 h2 q3 kv40 d16 f32 kv_lengths q@200,40,20 k@2000,40,20 v@2000,40,20 out@200,40,20",
            "b2 h2 q2 kv30 d16 f32 kv_lengths q@200,40,20 k@2000,40,20 v@2000,40,20 out@200,40,20"},
        Pair{"b4 h2 q3 kv40 d16 f32 alibi:b bias:bhqk kv_lengths page8",
             "b2 h2 q3 kv40 d16 f32 alibi:b bias:bhqk kv_lengths page8"}}) {
    for (const char* kernel : {"cpu.naive", "cpu.flash", "cpu.split_kv"}) {
      const Example own{std::string_view(batch)}, within{std::string_view(batch)};
      own.run(kernel);
      run_within(bounds, within, kernel);
      const std::vector<float> wanted = own.out(), got = within.out();
      ASSERT_EQ(wanted.size(), got.size());
      for (std::size_t i = 0; i < got.size(); ++i)
        EXPECT_NEAR(got[i], wanted[i], 1e-5) << kernel << " on " << batch << " at " << i;
    }
  }
}

TEST(Bounds, WhatExceedsThemIsRefusedByName) {
  const char* packed = "b3 h2 q5 kv6 d4 f32 varlen9/12";
  expect_refused(packed, "b4 h2 q5 kv6 d4 f32 varlen9/12",
                 "q_starts's start axis has size 5; the problem wants up to 4");
  expect_refused(packed, "b3 h2 q5 kv6 d4 f32 varlen10/12",
                 "q's seq axis has size 10; the problem wants up to 9");
  expect_refused(packed, "b3 h2 q5 kv6 d4 f32 varlen9/13",
                 "k's seq axis has size 13; the problem wants up to 12");
  const char* lengths = "b3 h2 q5 kv6 d4 f32 kv_lengths";
  expect_refused(lengths, "b4 h2 q5 kv6 d4 f32 kv_lengths",
                 "q's batch axis has size 4; the problem wants up to 3");
  expect_refused(lengths, "b3 h2 q6 kv6 d4 f32 kv_lengths", "q's seq axis has size 6");
  expect_refused(lengths, "b3 h2 q5 kv7 d4 f32 kv_lengths", "k's seq axis has size 7");
}

TEST(Bounds, AllTensorsOfARunHaveTheSameSizes) {
  Example batch("b2 h2 q5 kv6 d4 f32 kv_lengths page2");
  batch.arguments.kv_lengths.size[0] = 1;
  EXPECT_THROW(run_within("b3 h2 q5 kv6 d4 f32 kv_lengths page2", batch, "cpu.naive"), Error);
}

TEST(Bounds, AProblemOfFixedSizesTakesNoOthers) {
  expect_refused("b3 h2 q5 kv6 d4 f32", "b2 h2 q5 kv6 d4 f32",
                 "q's batch axis has size 2; the problem wants 3");
}

TEST(Bounds, TheWorkspaceGrowsWithThem) {
  for (const char* kernel : {"cpu.naive", "cpu.flash", "cpu.split_kv"}) {
    std::size_t last = 0;
    for (const std::int64_t kv : {100, 511, 4096, 16384, 32768, 33000, 49152, 65536, 100000}) {
      const Plan plan(
          Problem::parse("b2 h4/2 q1 kv" + std::to_string(kv) + " d16 f32 kv_lengths page16"),
          two_threads(), {.kernel = kernel});
      EXPECT_GE(plan.workspace_bytes(), last) << kernel << " at kv" << kv;
      last = plan.workspace_bytes();
    }
  }
}

}  // namespace
}  // namespace rapt::test
