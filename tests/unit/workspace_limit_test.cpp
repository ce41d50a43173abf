// PlanOptions::workspace_limit: kernels and configs that need more are passed over, and it is said.
#include <algorithm>
#include <cstdio>
#include <fstream>

#include "src/core/text.hpp"
#include "src/core/tuning_file.hpp"
#include "tests/unit/environment.hpp"
#include "tests/unit/support.hpp"

namespace rapt::test {
namespace {

// cpu.split_kv's best guess needs more workspace than its config with longer chunks.
const Problem problem = Problem::parse("b1 h32/8 q1 kv8192 d128 bf16");
constexpr const char* best_guess = "chunk=512";
constexpr const char* smaller = "chunk=1024";

std::size_t workspace_of(std::string_view kernel, const char* config = "") {
  return Plan(problem, two_threads(), {.kernel = kernel, .config = Config::parse(config)})
      .workspace_bytes();
}

const Candidate& candidate(const Explanation& explanation, std::string_view kernel) {
  return *std::ranges::find(explanation.candidates, kernel, &Candidate::kernel);
}

TEST(WorkspaceLimit, IsKeptByWhateverIsChosen) {
  const Plan free(problem, two_threads());
  const Plan exact(problem, two_threads(), {.workspace_limit = free.workspace_bytes()});
  EXPECT_EQ(exact.kernel(), free.kernel());
  EXPECT_EQ(exact.config(), free.config());
  for (std::size_t limit = free.workspace_bytes() - 1; limit > 0; limit /= 2) {
    const Explanation explanation = explain(problem, two_threads(), {.workspace_limit = limit});
    if (explanation.kernel.empty()) break;
    EXPECT_LE(Plan(problem, two_threads(), {.workspace_limit = limit}).workspace_bytes(), limit);
    for (const Candidate& one : explanation.candidates) {
      EXPECT_TRUE(!one.refusal.empty() || one.workspace_bytes <= limit) << one.kernel;
    }
  }
}

TEST(WorkspaceLimit, PrefersAConfigThatKeepsToItOverTheBestGuess) {
  const std::size_t limit = workspace_of("cpu.split_kv", best_guess) - 1;
  ASSERT_EQ(Plan(problem, two_threads(), {.kernel = "cpu.split_kv"}).config().to_string(),
            best_guess);
  ASSERT_LE(workspace_of("cpu.split_kv", smaller), limit);
  const PlanOptions options = {.kernel = "cpu.split_kv", .workspace_limit = limit};
  EXPECT_EQ(Plan(problem, two_threads(), options).config().to_string(), smaller);
  const Explanation explanation = explain(problem, two_threads(), {.workspace_limit = limit});
  const Candidate& split = candidate(explanation, "cpu.split_kv");
  EXPECT_EQ(split.refusal, "");
  EXPECT_EQ(split.config.to_string(), smaller);
  EXPECT_EQ(split.configs, std::vector{Config::parse(smaller)});
}

TEST(WorkspaceLimit, IsTheRefusalOfAKernelThatNeedsMore) {
  const std::size_t least = workspace_of("cpu.split_kv", smaller), limit = least - 1;
  const std::string sentence = text("it needs ", least, " bytes of workspace, and the limit is ",
                                    limit, ": raise PlanOptions::workspace_limit");
  const Explanation explanation = explain(problem, two_threads(), {.workspace_limit = limit});
  EXPECT_NE(explanation.kernel, "cpu.split_kv");
  EXPECT_EQ(candidate(explanation, "cpu.split_kv").refusal, sentence);
  EXPECT_TRUE(throws(ErrorCode::unsupported, "cpu.split_kv (named by the caller) refuses", [&] {
    Plan(problem, two_threads(), {.kernel = "cpu.split_kv", .workspace_limit = limit});
  }));
  EXPECT_TRUE(throws(ErrorCode::unsupported, sentence, [&] {
    Plan(problem, two_threads(), {.kernel = "cpu.split_kv", .workspace_limit = limit});
  }));
}

TEST(WorkspaceLimit, IsNamedWhereTheCallersConfigNeedsMore) {
  const std::size_t bytes = workspace_of("cpu.split_kv", best_guess);
  EXPECT_TRUE(throws(ErrorCode::invalid_argument,
                     text("cpu.split_kv cannot run with chunk=512, which needs ", bytes,
                          " bytes of workspace, and the limit is ", bytes - 1,
                          ": raise PlanOptions::workspace_limit; it can with chunk=1024"),
                     [&] {
                       Plan(problem, two_threads(),
                            {.kernel = "cpu.split_kv",
                             .config = Config::parse(best_guess),
                             .workspace_limit = bytes - 1});
                     }));
}

TEST(WorkspaceLimit, PassesOverATunedWinnerThatNeedsMoreAndWarns) {
  const std::string file = testing::TempDir() + "rapt_workspace_limit_tuning.txt";
  const TunedWinner winner = {.version = std::string(version()),
                              .machine = tuning_machine(two_threads()),
                              .problem = problem.to_string(),
                              .kernel = "cpu.split_kv",
                              .config = Config::parse(best_guess),
                              .seconds = 1e-3};
  std::ofstream(file) << print_tuning({&winner, 1});
  const ScopedVariable tuning("RAPT_TUNING", file.c_str());
  const std::size_t bytes = workspace_of("cpu.split_kv", best_guess);
  EXPECT_TRUE(explain(problem, two_threads(), {.workspace_limit = bytes}).warnings.empty());
  const Explanation explanation = explain(problem, two_threads(), {.workspace_limit = bytes - 1});
  EXPECT_EQ(explanation.reason, "least estimate");
  ASSERT_EQ(explanation.warnings.size(), 1U);
  EXPECT_NE(explanation.warnings.front().find(text("is passed over: it needs ", bytes, " bytes")),
            std::string::npos)
      << explanation.warnings.front();
  std::remove(file.c_str());
}

TEST(WorkspaceLimit, OfNothingLeavesTheKernelsWithoutAWorkspace) {
  const Problem tiny = Problem::parse("b64 h4 q1 kv2 d64 f32");
  EXPECT_EQ(Plan(tiny, two_threads(), {.workspace_limit = 0}).workspace_bytes(), 0U);
  EXPECT_TRUE(throws(ErrorCode::unsupported, "cpu.naive: it needs ",
                     [&] { Plan(problem, two_threads(), {.workspace_limit = 0}); }));
}

}  // namespace
}  // namespace rapt::test
