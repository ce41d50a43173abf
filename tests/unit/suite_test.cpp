// Suites: every built-in one can be read, and so can files of the same form.
#include "cli/bench/suite.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/unit/support.hpp"

namespace rapt::cli {
namespace {

TEST(Suites, AllHoldProblemsAndSayWhatTheyAreFor) {
  const std::vector<Suite> suites = built_in_suites();
  for (const char* name :
       {"default", "ladder", "scaling", "prefill", "decode", "wide", "tiny_kv"}) {
    EXPECT_TRUE(std::ranges::any_of(suites, [&](const Suite& suite) { return suite.name == name; }))
        << name;
  }
  for (const Suite& suite : suites) {
    EXPECT_FALSE(problems_named({std::string(suite.name)}).empty()) << suite.name;
    EXPECT_FALSE(summary(suite).empty()) << suite.name;
  }
}

TEST(Suites, MixWithProblemsInTheOrderGiven) {
  const auto problems = problems_named({"s4 d8", "scaling"});
  EXPECT_EQ(problems.front(), Problem::parse("s4 d8"));
  EXPECT_EQ(problems.size(), 1 + problems_named({"scaling"}).size());
}

TEST(Suites, MayBeFilesWithCommentsAndAFaultIsFoundByItsLine) {
  const std::string path = testing::TempDir() + "rapt_suite_test.txt";
  std::ofstream(path) << "# mine\n\n  s4 d8  # small\r\nb2 s4 d8 f16\n";
  EXPECT_EQ(problems_named({path}).size(), 2u);
  std::ofstream(path) << "s4 d8\ns4 nonsense\n";
  EXPECT_TRUE(test::throws(ErrorCode::invalid_argument, "line 2: cannot read 'nonsense'",
                           [&] { problems_named({path}); }));
  std::filesystem::remove(path);
}

TEST(Suites, ThatDoNotExistAreNamedBesideThoseThatDo) {
  EXPECT_TRUE(test::throws(ErrorCode::not_found, "'ladders' is neither a suite (",
                           [] { problems_named({"ladders"}); }));
}

}  // namespace
}  // namespace rapt::cli
