// Sums of many equal terms, whose roundings all go the same way: along the head dim, and over the
// keys.
#include <cmath>
#include <random>

#include "tests/unit/support.hpp"

namespace rapt::test {
namespace {

constexpr double unit = 0x1p-24;  // roundoff of f32

void fill_with(const Tensor& tensor, float value) {
  for_each_position(tensor.size, [&](const Shape& at) { set(tensor, at, value); });
}

float between_two_and_four() {
  static std::mt19937 random(1);
  return std::uniform_real_distribution<float>(2, 4)(random);
}

// Of all scores of a problem, which are equal: what lse is off, in roundoffs of the score.
double score_error(const Example& example, std::string_view kernel) {
  const Problem& p = example.problem;
  const float q = between_two_and_four(), k = between_two_and_four();
  fill_with(example.arguments.q, q);
  fill_with(example.arguments.k, k);
  example.run(kernel);
  const double score = double(q) * double(k) * double(p.qk_dim) * double(p.scale);
  double worst = 0;
  for (const float lse : example.lse())
    worst = std::max(worst, std::abs(lse - (score + std::log(double(p.kv_len)))));
  return worst / (score * unit);
}

// The matrix engine has too few accumulators to add up less than 32 products in a row.
TEST(EqualTerms, AlongTheHeadDimGiveScoresToAFewRoundoffs) {
  for (const char* sizes : {"q7 kv70", "q1 kv9"}) {
    for (const int dim : {16, 64, 72, 128, 512, 576, 2048, 8192}) {
      const Example example(std::string(sizes) + " d" + std::to_string(dim) + "/8 lse");
      for (const std::string_view kernel : kernels_for(example.problem)) {
        double worst = 0;
        for (int i = 0; i < 12; ++i) worst = std::max(worst, score_error(example, kernel));
        EXPECT_LE(worst, kernel == "cpu.flash" ? 12 : 4)
            << kernel << " on " << example.problem.to_string();
      }
    }
  }
}

TEST(EqualTerms, OverTheKeysGiveSumsToAFewRoundoffs) {
  for (const int keys : {500, 5000, 600000}) {
    const Example example("q1 kv" + std::to_string(keys) + " d8 k@0,0,0 v@0,0,0 lse");
    for (const std::string_view kernel : kernels_for(example.problem)) {
      const float value = between_two_and_four();
      fill_with(example.arguments.v, value);
      fill_with(example.arguments.q, 0);
      example.run(kernel);
      const double lse = std::log(double(keys));
      EXPECT_NEAR(example.lse()[0], lse, 2 * unit * lse) << kernel << ", " << keys << " keys";
      for (const float out : example.out())
        EXPECT_NEAR(out, value, (kernel == "cpu.split_kv" ? 8 : 24) * unit * double(value))
            << kernel << ", " << keys << " keys";
    }
  }
}

}  // namespace
}  // namespace rapt::test
