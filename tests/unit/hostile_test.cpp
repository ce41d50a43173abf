// Wrong input that only shows when a plan is made or run: index data, arguments of another problem,
// workspaces, names, environment variables. Each is a clear error, and nothing is written.
#include <climits>

#include "tests/unit/environment.hpp"
#include "tests/unit/support.hpp"

namespace rapt::test {
namespace {

constexpr ErrorCode invalid = ErrorCode::invalid_argument;

// check() and run() must both refuse, and out must stay as it was.
void expect_refused(const Example& example, std::string_view sentence) {
  const auto before = bits(example.out());
  EXPECT_TRUE(throws(invalid, sentence, [&] { check(example.problem, example.arguments); }));
  EXPECT_TRUE(throws(invalid, sentence, [&] { example.run(); }));
  EXPECT_EQ(bits(example.out()), before);
}

void expect_accepted(const Example& example) {
  EXPECT_NO_THROW(check(example.problem, example.arguments));
  EXPECT_NO_THROW(example.run());
}

TEST(IndexData, StartsMustRiseWithinThePackedTensor) {
  Example example("b3 h2 q4 kv5 d4 f32 varlen6/9");
  const auto with = [&](const std::vector<std::int32_t>& q, const std::vector<std::int32_t>& kv) {
    example.arguments.q_starts = example.integers(q);
    example.arguments.kv_starts = example.integers(kv);
  };
  with({0, 2, 2, 6}, {0, 5, 6, 9});
  expect_accepted(example);
  with({-1, 2, 2, 6}, {0, 5, 6, 9});
  expect_refused(example, "q_starts[0] is -1; starts must be 0 or more");
  with({0, 3, 2, 6}, {0, 5, 6, 9});
  expect_refused(example, "q_starts goes backwards: q_starts[2] is 2 after 3");
  with({0, 2, 3, 7}, {0, 5, 6, 9});
  expect_refused(example, "q_starts[3] is 7; the packed tensor has 6 rows");
  with({0, 0, 0, 5}, {0, 5, 6, 9});
  expect_refused(example, "q_starts gives sequence 2 a length of 5; the problem's bound is 4");
  with({0, 2, 2, 6}, {0, 6, 6, 9});
  expect_refused(example, "kv_starts gives sequence 0 a length of 6; the problem's bound is 5");
  with({0, 2, 2, 6}, {0, INT_MIN, INT_MAX, 9});
  expect_refused(example, "kv_starts goes backwards: kv_starts[1] is -2147483648 after 0");
  with({INT_MIN, INT_MIN, INT_MAX, INT_MAX}, {0, 5, 6, 9});
  expect_refused(example, "q_starts[0] is -2147483648");
}

TEST(IndexData, LengthsMustFitTheirSequence) {
  Example batched("b3 h2 q1 kv5 d4 f32 kv_lengths");
  batched.arguments.kv_lengths = batched.integers({5, 0, 3});
  expect_accepted(batched);
  batched.arguments.kv_lengths = batched.integers({5, 6, 3});
  expect_refused(batched, "kv_lengths[1] is 6; it must be from 0 to 5");
  batched.arguments.kv_lengths = batched.integers({5, 5, -1});
  expect_refused(batched, "kv_lengths[2] is -1; it must be from 0 to 5");

  Example packed("b2 h2 q2 kv5 d4 f32 varlen4/8 kv_lengths");
  packed.arguments.kv_starts = packed.integers({0, 3, 8});
  packed.arguments.kv_lengths = packed.integers({3, 1});
  expect_accepted(packed);
  packed.arguments.kv_lengths = packed.integers({4, 1});
  expect_refused(packed, "kv_lengths[0] is 4; it must be from 0 to 3");
}

TEST(IndexData, OnlyPagesInUseMustLieInThePool) {
  Example example("b2 h2 q1 kv12 d4 f32 kv_lengths page4");
  ASSERT_EQ(example.pages, 6);
  auto* table = static_cast<std::int32_t*>(example.arguments.page_table.data);
  example.arguments.kv_lengths = example.integers({12, 5});
  table[5] = INT_MAX;  // the second sequence's third page, which 5 keys do not reach
  expect_accepted(example);
  table[4] = 6;
  expect_refused(example, "page_table[1][1] is 6; the pool has pages 0 to 5");
  table[4] = 0;
  table[0] = -1;
  expect_refused(example, "page_table[0][0] is -1; the pool has pages 0 to 5");
}

TEST(IndexData, WithoutLengthsEveryPageOfTheTableIsInUse) {
  Example example("b1 h1 q1 kv9 d4 f32 page4");
  static_cast<std::int32_t*>(example.arguments.page_table.data)[2] = 3;
  expect_refused(example, "page_table[0][2] is 3; the pool has pages 0 to 2");
}

TEST(Run, RefusesArgumentsOfAnotherProblem) {
  const Example planned("b2 h4/2 q3 kv5 d8 f32 lse");
  const Plan plan(planned.problem, two_threads());
  const Buffer workspace(two_threads(), plan.workspace_bytes());
  const auto expect_other = [&](std::string_view other, std::string_view sentence) {
    const Example example(other);
    EXPECT_TRUE(throws(invalid, sentence, [&] {
      plan.run(example.arguments, {.workspace = workspace.bytes()});
    })) << other;
  };
  expect_other("b2 h4/2 q4 kv5 d8 f32 lse", "q's seq axis has size 4; the problem wants 3");
  expect_other("b2 h4/2 q3 kv6 d8 f32 lse", "k's seq axis has size 6; the problem wants 5");
  expect_other("b2 h4/2 q3 kv5 d8/4 f32 lse", "v's dim axis has size 4; the problem wants 8");
  expect_other("b2 h4/2 q3 kv5 d8 f16 lse", "q is f16; the problem wants f32");
  expect_other("b2 h4/2 q3 kv5 d8 f32", "lse is missing; the problem needs it as f32");
  expect_other("b2 h4/2 q3 kv5 d8 f32 bhsd lse", "q's seq axis has stride 8; the problem was");
  expect_other("b2 h4/2 q3 kv5 d8 f32 lse alibi", "alibi is given but the problem has none");
  expect_other("b2 h4/2 q3 kv5 d8 f32 lse bias:qk", "bias is given but the problem has none");
  expect_other("b2 h4/2 q3 kv5 d8 f32 lse mask:1", "mask is given but the problem has none");
  expect_other("b2 h4/2 q3 kv5 d8 f32 lse kv_lengths", "kv_lengths is given but");
  expect_other("b2 h4/2 q3 kv5 d8 f32 lse page5", "page_table is given but the problem has none");

  Arguments moved = planned.arguments;
  moved.k.data = static_cast<char*>(moved.k.data) + 4;
  EXPECT_TRUE(throws(invalid, "k's address is not aligned to 16 bytes",
                     [&] { plan.run(moved, {.workspace = workspace.bytes()}); }));
}

TEST(Run, RefusesABroadcastThatWasNotPlanned) {
  const Example planned("b2 h2 s3 d4 f32 bias:hqk");
  const Plan plan(planned.problem, two_threads());
  const Buffer workspace(two_threads(), plan.workspace_bytes());
  const Example other("b2 h2 s3 d4 f32 bias:qk");
  EXPECT_TRUE(throws(invalid, "bias's head axis is broadcast; the problem was planned the other",
                     [&] { plan.run(other.arguments, {.workspace = workspace.bytes()}); }));
}

TEST(Run, RefusesAMissingShortOrMisalignedWorkspace) {
  for (const char* kernel : {"cpu.naive", "cpu.oracle"}) {
    const Example example("b1 h2 s5 d4 f32");
    const Plan plan(example.problem, two_threads(), {.kernel = kernel});
    const std::size_t needed = plan.workspace_bytes();
    ASSERT_GT(needed, 0u);
    const Buffer workspace(two_threads(), needed + 64);
    const auto with = [&](std::span<std::byte> bytes) {
      return [&, bytes] { plan.run(example.arguments, {.workspace = bytes}); };
    };
    EXPECT_TRUE(throws(invalid, "the workspace has 0 bytes", with({})));
    EXPECT_TRUE(throws(invalid, "needs " + std::to_string(needed),
                       with(workspace.bytes().first(needed - 1))));
    EXPECT_TRUE(throws(invalid, "the workspace is not aligned to 64 bytes",
                       with(workspace.bytes().subspan(4, needed))));
    EXPECT_NO_THROW(plan.run(example.arguments, {.workspace = workspace.bytes().first(needed)}));
  }
}

Plan plan_with(const PlanOptions& options) {
  return Plan(Problem::parse("b1 h2 s5 d4 f32"), two_threads(), options);
}

TEST(Names, AnUnknownKernelIsAnErrorThatListsThoseThatExist) {
  EXPECT_TRUE(throws(ErrorCode::not_found, "there is no kernel 'cpu.nope'; there are cpu.",
                     [] { plan_with({.kernel = "cpu.nope"}); }));
  EXPECT_TRUE(throws(ErrorCode::not_found, "cpu.naive", [] { plan_with({.kernel = "naive"}); }));
}

TEST(Names, AKernelOfAnotherBackendIsAnError) {
  Device other = two_threads();
  other.backend = Backend::cuda;
  other.multiprocessors = 4;
  EXPECT_TRUE(
      throws(ErrorCode::unsupported, "cpu.naive (named by the caller) runs on cpu, not on",
             [&] { Plan(Problem::parse("b1 h2 s5 d4 f32"), other, {.kernel = "cpu.naive"}); }));
}

TEST(Names, AConfigKeyThatTheKernelLacksIsAnError) {
  EXPECT_TRUE(throws(invalid, "cpu.naive has no config key 'tile'", [] {
    plan_with({.kernel = "cpu.naive", .config = Config::parse("tile=3")});
  }));
}

TEST(Names, ConfigsAreWrittenKeyEqualsNumber) {
  for (const char* text : {"tile", "tile=", "=3", "tile=x", "tile=3,,stage=2", "tile=1e9", ","})
    EXPECT_TRUE(throws(invalid, "of the config; it is written", [&] { Config::parse(text); }))
        << text;
  EXPECT_TRUE(throws(invalid, "gives 'tile' twice", [] { Config::parse("tile=3,tile=3"); }));
  EXPECT_EQ(Config::parse("tile=3,stage=-2").to_string(), "tile=3,stage=-2");
  EXPECT_EQ(Config::parse("").to_string(), "");
}

TEST(Names, DevicesThatDoNotExistAreErrors) {
  for (const char* text : {"", "gpu", "cpu:0", "cuda:", "cuda:x", "cuda:0:0", "hip:-"})
    EXPECT_TRUE(throws(invalid, "is not a device", [&] { Device::parse(text); })) << text;
  EXPECT_THROW(Device::parse("cuda:999"), Error);
  EXPECT_THROW(Device::cuda(-1), Error);
  EXPECT_TRUE(throws(invalid, "with -1 threads", [] { Device::cpu(-1); }));
  EXPECT_TRUE(throws(invalid, "with 1025 threads", [] { Device::cpu(1025); }));
}

TEST(Names, ADeviceWithoutThreadsIsAnError) {
  Device none = two_threads();
  none.threads = 0;
  EXPECT_TRUE(throws(invalid, "the CPU device has 0 threads; 1 to 1024 are possible",
                     [&] { Plan(Problem::parse("b1 h2 s5 d4 f32"), none); }));
  EXPECT_TRUE(throws(invalid, "the CPU device has 0 threads",
                     [&] { explain(Problem::parse("b1 h2 s5 d4 f32"), none); }));
}

TEST(Names, AGpuWithoutMultiprocessorsIsAnError) {
  Device none;
  none.backend = Backend::cuda;
  none.index = 1;
  constexpr const char* sentence =
      "the device cuda:1 has 0 multiprocessors; a GPU has 1 or more: take it from Device::parse()";
  const Problem problem = Problem::parse("b1 h2 s5 d4 f32");
  EXPECT_TRUE(throws(invalid, sentence, [&] { Plan(problem, none); }));
  EXPECT_TRUE(throws(invalid, sentence, [&] { explain(problem, none); }));
}

TEST(Environment, AnUnknownKernelInRaptKernelIsAnErrorEvenWhereTheChoiceWouldWork) {
  const ScopedVariable kernel("RAPT_KERNEL", "cpu.fastest");
  EXPECT_TRUE(
      throws(ErrorCode::not_found, "there is no kernel 'cpu.fastest'", [] { plan_with({}); }));
  EXPECT_NO_THROW(plan_with({.kernel = "cpu.naive"})) << "the caller's argument beats it";
}

TEST(Environment, RaptThreadsMustBeAWholeNumberFrom1To1024) {
  for (const char* value : {"0", "-1", "1025", "two", "2x", " 2", "99999999999", "1.5"}) {
    const ScopedVariable threads("RAPT_THREADS", value);
    EXPECT_TRUE(throws(invalid, "it must be a whole number from 1 to 1024", [] { Device::cpu(); }))
        << value;
  }
  const ScopedVariable threads("RAPT_THREADS", "3");
  EXPECT_EQ(Device::cpu().threads, 3);
  EXPECT_EQ(Device::cpu(2).threads, 2) << "the caller's argument beats it";
}

TEST(Buffers, RefuseToCopyMoreThanTheyHold) {
  Buffer buffer(two_threads(), 8);
  char bytes[16] = {};
  EXPECT_TRUE(throws(invalid, "cannot copy 9 bytes into a buffer of 8",
                     [&] { buffer.copy_from_host(bytes, 9); }));
  EXPECT_TRUE(throws(invalid, "cannot copy 16 bytes out of a buffer of 8",
                     [&] { buffer.copy_to_host(bytes, 16); }));
}

}  // namespace
}  // namespace rapt::test
