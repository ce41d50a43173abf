// Plans: which kernel is chosen and who may override that, what is logged, what explain() says, and
// that run() allocates nothing.
#include <algorithm>
#include <set>

#include "tests/unit/counting_allocator.hpp"
#include "tests/unit/environment.hpp"
#include "tests/unit/support.hpp"

namespace rapt::test {
namespace {

const Problem& small() {
  static const Problem problem = Problem::parse("b1 h2 s5 d4 f32");
  return problem;
}

TEST(Choice, IsTheKernelWithTheLeastEstimateThatMayBeChosen) {
  const Explanation explanation = explain(small(), two_threads());
  const Plan plan(small(), two_threads());
  EXPECT_EQ(plan.kernel(), explanation.kernel);
  const auto all = kernels();
  double chosen_seconds = -1;
  for (const Candidate& candidate : explanation.candidates) {
    EXPECT_EQ(candidate.chosen, candidate.kernel == explanation.kernel);
    if (candidate.chosen) chosen_seconds = candidate.seconds;
  }
  ASSERT_GT(chosen_seconds, 0);
  for (const Candidate& candidate : explanation.candidates) {
    const auto info = std::ranges::find(all, candidate.kernel, &KernelInfo::name);
    ASSERT_NE(info, all.end());
    EXPECT_FALSE(candidate.chosen && info->by_name_only) << candidate.kernel;
    if (candidate.refusal.empty() && !info->by_name_only) {
      EXPECT_LE(chosen_seconds, candidate.seconds) << candidate.kernel;
    }
  }
}

TEST(Choice, OfTheOracleIsByNameOnly) {
  const auto all = kernels();
  const auto oracle = std::ranges::find(all, "cpu.oracle", &KernelInfo::name);
  ASSERT_NE(oracle, all.end());
  EXPECT_TRUE(oracle->by_name_only);
  EXPECT_EQ(Plan(small(), two_threads(), {.kernel = "cpu.oracle"}).kernel(), "cpu.oracle");
}

TEST(Choice, TheCallersArgumentBeatsTheEnvironmentWhichBeatsTheChoice) {
  const ScopedVariable kernel("RAPT_KERNEL", "cpu.oracle");
  EXPECT_EQ(Plan(small(), two_threads()).kernel(), "cpu.oracle");
  EXPECT_EQ(Plan(small(), two_threads(), {.kernel = "cpu.naive"}).kernel(), "cpu.naive");
  EXPECT_EQ(explain(small(), two_threads()).reason, "named by RAPT_KERNEL");
}

TEST(Choice, AnEmptyEnvironmentVariableIsNoOverride) {
  const ScopedVariable kernel("RAPT_KERNEL", "");
  EXPECT_EQ(explain(small(), two_threads()).reason, "least estimate");
}

// The scores of a million tokens do not fit any machine.
const Problem& enormous() {
  static const Problem problem = Problem::parse("b64 h64 s1048576 d64 f32");
  return problem;
}

TEST(Refusals, ComeWithTheReasonWhenTheKernelIsNamed) {
  EXPECT_TRUE(throws(ErrorCode::unsupported,
                     "cpu.naive (named by the caller) refuses 'b64 h64 s1048576 d64 f32': it "
                     "would store ",
                     [] { Plan(enormous(), two_threads(), {.kernel = "cpu.naive"}); }));
  const ScopedVariable kernel("RAPT_KERNEL", "cpu.naive");
  EXPECT_TRUE(throws(ErrorCode::unsupported, "cpu.naive (named by RAPT_KERNEL) refuses",
                     [] { Plan(enormous(), two_threads()); }));
}

TEST(Explain, NamesEveryKernelOfTheBackendWithItsEstimateOrItsRefusal) {
  const Explanation explanation = explain(enormous(), two_threads());
  std::size_t expected = 0, refused = 0;
  for (const KernelInfo& kernel : kernels()) {
    expected += kernel.backend == Backend::cpu && kernel.operation == Operation::forward;
  }
  EXPECT_EQ(explanation.candidates.size(), expected);
  EXPECT_EQ(explanation.problem, enormous().to_string());
  const std::string text = explanation.to_string();
  for (const Candidate& candidate : explanation.candidates) {
    refused += !candidate.refusal.empty();
    const std::string line =
        std::string(candidate.kernel) +
        (candidate.refusal.empty() ? ": about " : ": refuses: " + candidate.refusal + "\n");
    EXPECT_NE(text.find(line), std::string::npos) << text;
    if (candidate.kernel != "cpu.naive") continue;
    EXPECT_TRUE(candidate.refusal.starts_with("it would store ")) << candidate.refusal;
  }
  EXPECT_GT(refused, 0u);
  EXPECT_LT(refused, expected);
}

TEST(Log, IsSilentUnlessAskedFor) {
  const ScopedVariable log("RAPT_LOG", "0");
  ::testing::internal::CaptureStderr();
  Example(small()).run();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(Log, WritesOneLinePerPlanAndPerRunThatNamesTheProblem) {
  const ScopedVariable log("RAPT_LOG", "1");
  const Example example(small());
  ::testing::internal::CaptureStderr();
  example.run("cpu.naive");
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::ranges::count(text, '\n'), 2) << text;
  EXPECT_EQ(text.find("rapt: plan 'b1 h2 s5 d4 f32' on cpu: cpu.naive (named by the caller), "), 0u)
      << text;
  EXPECT_NE(text.find("\nrapt: run 'b1 h2 s5 d4 f32' on cpu: cpu.naive, "), std::string::npos)
      << text;
}

TEST(PlanObject, KeepsWhatItWasMadeFrom) {
  const Plan plan(small(), two_threads(), {.kernel = "cpu.naive"});
  const Plan copy = plan;
  EXPECT_EQ(copy.problem(), small());
  EXPECT_EQ(copy.device().threads, 2);
  EXPECT_EQ(copy.workspace_bytes(), plan.workspace_bytes());
  EXPECT_EQ(copy.config().to_string(), "");
}

TEST(PlanObject, RunsManyTimesWithTheSameBits) {
  const Example example("b2 h4/2 q7 kv33 d20 bf16 causal lse");
  example.run();
  const auto first = bits(example.out());
  for (const std::int32_t threads : {1, 3, 5}) {
    const Device device = Device::cpu(threads);
    const Plan plan(example.problem, device, {.kernel = "cpu.naive"});
    const Buffer workspace(device, plan.workspace_bytes());
    for (int time = 0; time < 3; ++time) {
      fill(example.arguments.out, std::vector<float>(first.size(), 99));
      plan.run(example.arguments, {.workspace = workspace.bytes()});
      EXPECT_EQ(bits(example.out()), first) << threads << " threads, time " << time;
    }
  }
}

TEST(PlanObject, SurvivesGrowingLengthsAndAGrowingPool) {
  Example example("b1 h2 q1 kv8 d4 f32 kv_lengths page2 lse");
  const Plan plan(example.problem, two_threads());
  const Buffer workspace(two_threads(), plan.workspace_bytes());
  Example larger("b1 h2 q1 kv16 d4 f32 kv_lengths page2 lse");
  Arguments grown = example.arguments;
  grown.k = larger.arguments.k;
  grown.v = larger.arguments.v;
  for (std::int32_t length = 0; length <= 8; ++length) {
    grown.kv_lengths = example.integers({length});
    EXPECT_NO_THROW(plan.run(grown, {.workspace = workspace.bytes()})) << length;
  }
}

TEST(Allocations, AreCounted) {
  const std::int64_t before = allocations_so_far();
  { const std::vector<std::string> strings(3, "a string too long to be stored inside itself"); }
  EXPECT_GE(allocations_so_far() - before, 4);
}

TEST(Allocations, RunMakesNone) {
  std::set<std::string_view> ran;
  for (const char* text :
       {"b2 h4/2 q17 kv33 d20/12 bf16 causal window9 bias:hqk mask:bqk alibi softcap20 sinks lse",
        "b2 h4/2 q17 kv33 d20 bf16 causal dropout0.25",
        "b2 h4/2 q17 kv33 d20 f32 varlen20/40 kv_lengths lse", "b2 h4/2 q1 kv33 d20 f16 page4",
        "b1 h2 q110 kv300 d600 f32 causal", "b2 h4/2 q1 kv3000 d16 bf16 kv_lengths page16 lse",
        "b9 h2 q3 kv12 d20 f32 causal", "b2 h2 q0 kv3 d4 f32", "b2 h2 q3 kv0 d4 f32 sinks",
        "b2 h4/2 q17 kv33 d20 bf16 causal bias:hqk alibi softcap9 sinks "
        "backward:bias,sinks,alibi"}) {
    const Example example{std::string_view(text)};
    for (const std::string_view kernel : kernels_for(example.problem)) {
      ran.insert(kernel);
      const Plan plan(example.problem, two_threads(), {.kernel = kernel});
      const Buffer workspace(two_threads(), plan.workspace_bytes());
      const Launch launch = {.workspace = workspace.bytes()};
      plan.run(example.arguments, launch);  // threads may allocate when they first run
      const std::int64_t before = allocations_so_far();
      for (int time = 0; time < 3; ++time) plan.run(example.arguments, launch);
      EXPECT_EQ(allocations_so_far() - before, 0) << kernel << " on " << text;
    }
  }
  expect_every_kernel_in(ran);
}

std::size_t workspace_of(std::string_view kernel, const std::string& text) {
  return Plan(Problem::parse(text), two_threads(), {.kernel = kernel}).workspace_bytes();
}

TEST(Workspace, OfFlashKernelsGrowsNoFasterThanTheSequence) {
  for (const std::string_view kernel :
       kernels_for(Problem::parse("b1 h16 s1024 d64 bf16 causal lse"))) {
    if (!kernel.starts_with("cpu.flash")) continue;
    for (const std::string type : {"bf16", "bf16 causal lse", "bf16 bhsd alibi"}) {
      const std::size_t few = workspace_of(kernel, "b1 h16 s1024 d64 " + type);
      EXPECT_LE(workspace_of(kernel, "b1 h16 s8192 d64 " + type), 8 * few) << kernel << type;
      EXPECT_LE(workspace_of(kernel, "b1 h16 s1048576 d64 " + type), 1024 * few) << kernel << type;
    }
  }
}

TEST(Plan, OfWhatMustNotDependOnTheBatchHasTheSameKernelForAnyBatchAndBounds) {
  for (const auto& [small, large] :
       {std::pair{"b1 h8/2 q1 kv12 d64 f32 kv_lengths batch-invariant",
                  "b200 h8/2 q512 kv9000 d64 f32 kv_lengths batch-invariant"},
        std::pair{"b1 h8 q3 kv300 d128 bf16 batch-invariant",
                  "b64 h8 q3 kv300 d128 bf16 batch-invariant"},
        std::pair{"b2 h8 q1 kv64 d64 f16 varlen2 page16 kv_lengths batch-invariant",
                  "b9 h8 q700 kv5000 d64 f16 varlen4000 page16 kv_lengths batch-invariant"},
        std::pair{"b1 h8 q1 kv12 d64 bf16 batch-invariant:rows",
                  "b64 h8 q700 kv5000 d64 bf16 causal bias:hqk page16 kv_lengths "
                  "batch-invariant:rows"},
        std::pair{"b1 h8 q1 kv5000 d600 f32 offset9 batch-invariant:rows",
                  "b1 h8 s5000 d600 f32 causal window9 varlen batch-invariant:rows"}}) {
    const Explanation one = explain(Problem::parse(small), Device::cpu(2));
    const Explanation other = explain(Problem::parse(large), Device::cpu(2));
    EXPECT_EQ(one.kernel, other.kernel) << small;
    EXPECT_NE(one.kernel, "") << one.reason;
  }
}

}  // namespace
}  // namespace rapt::test
