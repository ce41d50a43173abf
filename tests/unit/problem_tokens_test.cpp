// The list of tokens that messages and the help show, beside what can be read and what is printed.
#include "src/core/problem_tokens.hpp"

#include <iterator>
#include <set>
#include <sstream>

#include "src/core/closest.hpp"
#include "src/verify/generator.hpp"
#include "tests/unit/support.hpp"

namespace rapt::test {
namespace {

std::vector<std::string> words(std::string_view text) {
  std::istringstream stream{std::string(text)};
  return {std::istream_iterator<std::string>(stream), {}};
}

// "window", of "window128:0"; "k@" stands for the strides of any tensor.
std::string kind(const std::string& token) {
  if (token.find('@') != std::string::npos) return "@";
  return token.substr(0, token.find_first_of("0123456789:-"));
}

TEST(ProblemTokens, CanEachBeRead) {
  for (const std::string& token : words(problem_token_list()))
    EXPECT_TRUE(reads_as_problem_tokens(token)) << token;
  EXPECT_TRUE(reads_as_problem_tokens("b2 causal"));
  for (const char* other : {"", " ", "ladder", "rows.json", "b2 ladder", "-"})
    EXPECT_FALSE(reads_as_problem_tokens(other)) << other;
}

TEST(ProblemTokens, AreAllListed) {
  std::set<std::string> listed;
  for (const std::string& token : words(problem_token_list())) listed.insert(kind(token));
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    for (const std::string& token : words(verify::random_problem(seed, Backend::cpu).to_string()))
      ASSERT_TRUE(listed.contains(kind(token))) << token;
  }
}

TEST(ProblemTokens, StandInEveryParseError) {
  for (const char* text : {"", "s4", "d8 casual", "s4 d8 d8", "s4 d8 bias", "s4 d8 sx"}) {
    EXPECT_TRUE(
        throws(ErrorCode::invalid_argument, problem_token_list(), [&] { Problem::parse(text); }));
  }
}

TEST(ProblemTokens, AreMadeCanonicalWhereAllCanBeRead) {
  EXPECT_EQ(canonical_problem("d4 s8 lengths"), "b1 h1 s8 d4 f32 kv_lengths");
  EXPECT_EQ(canonical_problem("s8 d4 lengths of a time to come"),
            "s8 d4 lengths of a time to come");
}

TEST(Closest, IsAFewSlipsAway) {
  const std::vector<std::string_view> names = {"cpu.naive", "cpu.flash", "cuda.flash", "bench"};
  EXPECT_EQ(closest("flash", names), "cpu.flash");
  EXPECT_EQ(closest("cuda.falsh", names), "cuda.flash");
  EXPECT_EQ(closest("bnech", names), "bench");
  EXPECT_EQ(closest("cpu.magic", names), "");
  EXPECT_EQ(closest("", names), "");
  EXPECT_EQ(did_you_mean("benc", names), " (did you mean bench?)");
  EXPECT_EQ(did_you_mean("nothing", names), "");
}

}  // namespace
}  // namespace rapt::test
