// What the bench says of its measurements: when a kernel has been timed enough, and how good the
// choices were.
#include <gtest/gtest.h>

#include "cli/bench/report.hpp"
#include "cli/bench/samples.hpp"

namespace rapt::cli {
namespace {

Samples samples(std::initializer_list<double> seconds) {
  Samples result;
  for (const double each : seconds) result.add(each);
  return result;
}

TEST(Samples, HaveAMedianThatOneOutlierDoesNotMove) {
  EXPECT_EQ(samples({3, 1, 100}).median(), 3);
  EXPECT_EQ(samples({4, 1, 2, 100}).median(), 3);
  EXPECT_EQ(samples({3, 1, 100}).least(), 1);
}

TEST(Samples, SpreadIsHalfOfWhatLiesBetweenTheQuartilesAndOneOutlierDoesNotMoveIt) {
  EXPECT_EQ(samples({5, 1, 3, 2, 4}).spread(), 1);
  EXPECT_EQ(samples({500, 1, 3, 2, 4}).spread(), 1);
  EXPECT_EQ(samples({1, 3}).spread(), 0.5);
  EXPECT_EQ(samples({2, 2, 2}).spread(), 0);
  EXPECT_EQ(samples({7}).spread(), std::nullopt);
}

TEST(Samples, AreEnoughAfterTheTimeAllowedButNotFewerThanThreeUnlessOneIsTooLong) {
  EXPECT_FALSE(Samples().enough(0));
  EXPECT_FALSE(samples({0.3, 0.3}).enough(0.5));
  EXPECT_TRUE(samples({0.3, 0.3, 0.3}).enough(0.5));
  EXPECT_FALSE(samples({0.1, 0.1, 0.1}).enough(0.5));
  EXPECT_TRUE(samples({0.6}).enough(0.5));
}

TEST(Samples, AreFarBehindAtFourTimesTheBestUnlessItMayBeAHiccup) {
  EXPECT_TRUE(samples({0.41}).far_behind(0.1));
  EXPECT_FALSE(samples({0.39}).far_behind(0.1));
  EXPECT_FALSE(samples({0.41, 0.39}).far_behind(0.1));
  EXPECT_FALSE(samples({0.009}).far_behind(0.0001));
  EXPECT_TRUE(samples({0.009, 0.009}).far_behind(0.0001));
  EXPECT_FALSE(Samples().far_behind(0.1));
}

Measurement row(const char* problem, const char* kernel, bool chosen,
                std::optional<double> seconds) {
  Measurement result;
  result.problem = problem;
  result.kernel = kernel;
  result.chosen = chosen;
  result.seconds = seconds;
  if (!seconds) result.status = "refused: it is too large";
  return result;
}

TEST(ChoiceSummary, CountsGoodChoicesAndNamesTheWorst) {
  std::vector<Measurement> rows = {
      row("first", "slow", false, 3),           row("first", "fast", true, 1),
      row("second", "slow", true, 1.05),        row("second", "fast", false, 1),
      row("third", "slow", true, 1.5),          row("third", "fast", false, 1),
      row("fourth", "slow", true, 1),           row("fourth", "fast", false, std::nullopt),
      row("fifth", "slow", true, std::nullopt),
  };
  EXPECT_EQ(choice_summary(rows),
            "choice within 10 % of the best kernel on 3 of 4 problems; worst: slow took 50.0 % "
            "longer than fast on \"third\"\n");
  rows[5].status = "wrong: all of it";
  EXPECT_EQ(choice_summary(rows),
            "choice within 10 % of the best kernel on 4 of 4 problems; worst: slow took 5.0 % "
            "longer than fast on \"second\"\n");
}

TEST(ChoiceSummary, NamesNoWorstWhereEveryChoiceWasBest) {
  const Measurement rows[] = {row("first", "slow", false, 3), row("first", "fast", true, 1)};
  EXPECT_EQ(choice_summary(rows), "choice within 10 % of the best kernel on 1 of 1 problems\n");
}

TEST(ChoiceSummary, IsEmptyWhereNothingCouldBeChosen) {
  const Measurement rows[] = {row("first", "only", true, 1), row("second", "only", true, 1),
                              row("second", "other", false, std::nullopt)};
  EXPECT_EQ(choice_summary(rows), "");
  EXPECT_EQ(choice_summary({}), "");
}

}  // namespace
}  // namespace rapt::cli
