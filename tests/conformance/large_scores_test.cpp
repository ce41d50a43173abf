// Scores far beyond what data of a network gives. f32 cannot tell them apart any more unless they
// are made to be told apart: here products are exact, so that the right weights are known.
#include <cmath>
#include <functional>

#include "tests/unit/support.hpp"

namespace rapt::test {
namespace {

// Problems that reach every kernel: several tiles of keys, one query, a few keys.
const char* const sizes[] = {"h2/1 q70 kv300 d8", "h2/1 q1 kv300 d8", "h2/1 q3 kv11 d8"};

struct Scores {
  const char* name;
  std::function<float(std::int64_t key)> factor;  // times a magnitude: the score
};

const Scores kinds[] = {
    {"all equal", [](std::int64_t) { return 1.0f; }},
    {"all equal and negative", [](std::int64_t) { return -1.0f; }},
    {"one large", [](std::int64_t key) { return key == 7 ? 1.0f : 0.0f; }},
    {"one small", [](std::int64_t key) { return key == 7 ? -1.0f : 0.0f; }},
    {"rising", [](std::int64_t key) { return float(key / 4) / 128; }},
    {"falling", [](std::int64_t key) { return float(-key / 4) / 128; }},
    {"both signs", [](std::int64_t key) { return key % 3 == 0 ? 1.0f : -1.0f; }},
};

// q = (a, 0, …) and k = (b · factor, 0, …), with powers of two for a and b.
void set_scores(const Example& example, float a, float b, const Scores& scores) {
  const Arguments& arguments = example.arguments;
  for_each_position(arguments.q.size,
                    [&](const Shape& at) { set(arguments.q, at, at[3] == 0 ? a : 0); });
  for_each_position(arguments.k.size, [&](const Shape& at) {
    set(arguments.k, at, at[3] == 0 ? b * scores.factor(at[1]) : 0);
  });
}

// Over results that are wrong, so that an earlier kernel's do not pass for this one's.
void run(const Example& example, std::string_view kernel) {
  fill(example.arguments.out, std::vector<float>(example.out().size(), 99));
  fill(example.arguments.lse, std::vector<float>(example.lse().size(), 99));
  example.run(kernel);
}

float tolerance(DType dtype) {
  return dtype == DType::f32 ? 1e-5f : dtype == DType::f16 ? 0x1p-9f : 0x1p-6f;
}

void expect_what_the_oracle_says(const Example& example, const char* name) {
  run(example, "cpu.oracle");
  const auto out = example.out(), lse = example.lse();
  for (const std::string_view kernel : kernels_for(example.problem)) {
    run(example, kernel);
    const std::string where =
        std::string(kernel) + " on " + example.problem.to_string() + ", scores " + name;
    const auto got = example.out(), got_lse = example.lse();
    for (std::size_t i = 0; i < out.size(); ++i)
      ASSERT_NEAR(got[i], out[i], tolerance(example.problem.dtype)) << where << ", element " << i;
    for (std::size_t i = 0; i < lse.size(); ++i)
      ASSERT_NEAR(got_lse[i], lse[i], 4e-6f * std::max(1.0f, std::abs(lse[i])))
          << where << ", lse " << i;
  }
}

TEST(LargeScores, ThatAreExactGiveTheRightWeights) {
  for (const char* size : sizes) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      for (const char* features : {"", " causal", " sinks", " softcap30"}) {
        const Example example(std::string(size) + " scale1 lse " + std::string(name(dtype)) +
                              features);
        for (const Scores& scores : kinds) {
          set_scores(example, 0x1p15f, 0x1p15f, scores);  // 1e9
          expect_what_the_oracle_says(example, scores.name);
          if (dtype == DType::f16) continue;              // it ends at 65504
          set_scores(example, 0x1p60f, 0x1p50f, scores);  // 1e33
          expect_what_the_oracle_says(example, scores.name);
        }
      }
    }
  }
}

// Here rounding decides which key wins; whichever does, the result is a mean of values.
TEST(LargeScores, OfRandomDataGiveMeansOfValues) {
  for (const char* size : sizes) {
    for (const char* type : {"f32", "bf16", "f16"}) {
      for (const char* scale : {"scale1e5", "scale1e10", "scale1e30"}) {
        const Example example(std::string(size) + " lse " + type + " " + scale);
        for (const std::string_view kernel : kernels_for(example.problem)) {
          run(example, kernel);
          for (const float value : example.out())
            ASSERT_LE(std::abs(value), 1.01f) << kernel << " on " << example.problem.to_string();
          for (const float value : example.lse())
            ASSERT_TRUE(std::isfinite(value)) << kernel << " on " << example.problem.to_string();
        }
      }
    }
  }
}

}  // namespace
}  // namespace rapt::test
