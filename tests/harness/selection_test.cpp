// Selection among several kernels: those of tests/broken/registry.cpp.
#include <gtest/gtest.h>

#include <algorithm>

#include "rapt/rapt.hpp"

namespace rapt {
namespace {

const Problem prefill = Problem::parse("b1 h2 s17 d16 f32");
const Problem decode = Problem::parse("b1 h2 q1 kv17 d16 f32");

const Candidate& candidate(const Explanation& explanation, std::string_view kernel) {
  return *std::ranges::find(explanation.candidates, kernel, &Candidate::kernel);
}

std::string sentence_of_plan(const PlanOptions& options) {
  try {
    const Plan plan(prefill, Device::cpu(1), options);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Selection, TakesTheLeastEstimateNotTheFirstInTheList) {
  EXPECT_EQ(Plan(prefill, Device::cpu(1)).kernel(), "cpu.cheapest");
  EXPECT_EQ(Plan(decode, Device::cpu(1)).kernel(), "cpu.one_query");
}

TEST(Selection, PassesOverAKernelThatRefusesAndExplainsWhy) {
  const Explanation explanation = explain(prefill, Device::cpu(1));
  EXPECT_EQ(explanation.kernel, "cpu.cheapest");
  EXPECT_EQ(explanation.reason, "least estimate");
  EXPECT_EQ(candidate(explanation, "cpu.one_query").refusal, "it takes one query a sequence");
  EXPECT_TRUE(candidate(explanation, "cpu.cheapest").chosen);
  EXPECT_FALSE(candidate(explanation, "cpu.naive").chosen);
  EXPECT_NE(explanation.to_string().find("cpu.one_query: refuses: it takes one query a sequence"),
            std::string::npos);
}

TEST(Selection, NeverTakesAKernelThatIsForNamingOnly) {
  for (const Candidate& each : explain(prefill, Device::cpu(1)).candidates) {
    EXPECT_EQ(each.chosen, each.kernel == "cpu.cheapest") << each.kernel;
  }
}

TEST(Selection, NamesTheRefusalOfANamedKernel) {
  const std::string sentence = sentence_of_plan({.kernel = "cpu.one_query"});
  EXPECT_NE(sentence.find("cpu.one_query (named by the caller) refuses 'b1 h2 s17 d16 f32'"),
            std::string::npos)
      << sentence;
}

TEST(Config, IsTheKernelsBestGuessUnlessTheCallerReplacesValues) {
  const Device device = Device::cpu(1);
  EXPECT_EQ(Plan(prefill, device).config().to_string(), "tile=64,splits=1");
  const Plan plan(prefill, device, {.config = Config::parse("tile=32")});
  EXPECT_EQ(plan.config().to_string(), "tile=32,splits=1");
  EXPECT_EQ(candidate(explain(prefill, device), "cpu.cheapest").config.to_string(),
            "tile=64,splits=1");
}

TEST(Config, MustBeOneTheKernelOffers) {
  EXPECT_EQ(sentence_of_plan({.config = Config::parse("stages=2")}),
            "cpu.cheapest has no config key 'stages'; its config is tile=64,splits=1");
  EXPECT_EQ(sentence_of_plan({.config = Config::parse("splits=0")}),
            "cpu.cheapest cannot run with tile=64,splits=0; it can with tile=64,splits=1 or "
            "tile=32,splits=1 or tile=32,splits=2");
}

}  // namespace
}  // namespace rapt
