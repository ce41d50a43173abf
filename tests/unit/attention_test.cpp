// Attention small enough to compute by hand, by every CPU kernel, and things that must not change a
// single bit: pages, packing and layout.
#include <cmath>
#include <limits>

#include "tests/unit/support.hpp"

namespace rapt::test {
namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();
constexpr float tolerance = 1e-6f;

class Attention : public ::testing::TestWithParam<const char*> {
 protected:
  void run(const Example& example) { example.run(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Kernels, Attention, ::testing::Values("cpu.naive", "cpu.oracle"),
                         [](const auto& kernel) { return std::string(kernel.param).substr(4); });

// One query 2, keys 0.5 and −1, values 10 and 20; scale 1: scores 1 and −2.
Example two_keys(std::string_view tokens) {
  Example example("b1 h1 q1 kv2 d1 f32 lse " + std::string(tokens));
  fill(example.arguments.q, {2});
  fill(example.arguments.k, {0.5f, -1});
  fill(example.arguments.v, {10, 20});
  return example;
}

float weighted(double first, double second, double sink_weight = 0) {
  return float((first * 10 + second * 20) / (first + second + sink_weight));
}

TEST_P(Attention, TwoKeysAreWeightedByTheExponentialsOfTheirScores) {
  const Example example = two_keys("");
  run(example);
  EXPECT_NEAR(example.out()[0], weighted(std::exp(1), std::exp(-2)), 10 * tolerance);
  EXPECT_NEAR(example.lse()[0], std::log(std::exp(1) + std::exp(-2)), tolerance);
}

TEST_P(Attention, TheScaleMultipliesTheScores) {
  const Example example = two_keys("scale0.5");
  run(example);
  EXPECT_NEAR(example.out()[0], weighted(std::exp(0.5), std::exp(-1)), 10 * tolerance);
}

TEST_P(Attention, ASinkTakesWeightButGivesNoValue) {
  const Example example = two_keys("sinks");
  fill(example.arguments.sinks, {0.75f});
  run(example);
  EXPECT_NEAR(example.out()[0], weighted(std::exp(1), std::exp(-2), std::exp(0.75)),
              10 * tolerance);
  EXPECT_NEAR(example.lse()[0], std::log(std::exp(1) + std::exp(-2) + std::exp(0.75)), tolerance);
}

TEST_P(Attention, ASoftCapBendsScoresBeforeTheBiasIsAdded) {
  const Example example = two_keys("softcap1.5 bias:k");
  fill(example.arguments.bias, {-0.25f, 3});
  run(example);
  const double first = 1.5 * std::tanh(1 / 1.5) - 0.25, second = 1.5 * std::tanh(-2 / 1.5) + 3;
  EXPECT_NEAR(example.out()[0], weighted(std::exp(first), std::exp(second)), 10 * tolerance);
  EXPECT_NEAR(example.lse()[0], std::log(std::exp(first) + std::exp(second)), tolerance);
}

TEST_P(Attention, AlibiSubtractsSlopeTimesDistance) {
  const Example example = two_keys("alibi offset3");
  fill(example.arguments.alibi, {0.25f});
  run(example);
  const double first = 1 - 0.25 * 3, second = -2 - 0.25 * 2;
  EXPECT_NEAR(example.out()[0], weighted(std::exp(first), std::exp(second)), 10 * tolerance);
  EXPECT_NEAR(example.lse()[0], std::log(std::exp(first) + std::exp(second)), tolerance);

  const Example of_sequence = two_keys("alibi:b offset3");
  fill(of_sequence.arguments.alibi, {0.25f});
  run(of_sequence);
  EXPECT_EQ(of_sequence.out()[0], example.out()[0]) << "slopes of one sequence are slopes";

  const Example ahead = two_keys("alibi offset0");
  fill(ahead.arguments.alibi, {0.25f});
  run(ahead);
  EXPECT_NEAR(ahead.lse()[0], std::log(std::exp(1) + std::exp(-2 - 0.25)), tolerance)
      << "keys ahead are as far as keys behind";
}

TEST_P(Attention, AMaskedKeyIsNotThere) {
  const Example example = two_keys("mask:k");
  static_cast<std::uint8_t*>(example.arguments.mask.data)[0] = 0;
  static_cast<std::uint8_t*>(example.arguments.mask.data)[1] = 1;
  run(example);
  EXPECT_EQ(example.out()[0], 20);
  EXPECT_NEAR(example.lse()[0], -2, tolerance);
}

TEST_P(Attention, AFullyMaskedRowGivesZerosAndTheLseOfNothing) {
  const Example example = two_keys("mask:k");
  std::memset(example.arguments.mask.data, 0, 2);
  run(example);
  EXPECT_EQ(bits(example.out()), bits({0.0f}));
  EXPECT_EQ(example.lse()[0], minus_infinity);

  const Example sinking = two_keys("mask:k sinks");
  std::memset(sinking.arguments.mask.data, 0, 2);
  fill(sinking.arguments.sinks, {0.75f});
  run(sinking);
  EXPECT_EQ(bits(sinking.out()), bits({0.0f}));
  EXPECT_EQ(sinking.lse()[0], 0.75f) << "with a sink: the sink";
}

TEST_P(Attention, ABiasOfMinusInfinityHidesAKeyWithoutNan) {
  const Example example = two_keys("bias:k");
  fill(example.arguments.bias, {minus_infinity, 0});
  run(example);
  EXPECT_EQ(example.out()[0], 20);
  fill(example.arguments.bias, {minus_infinity, minus_infinity});
  run(example);
  EXPECT_EQ(bits(example.out()), bits({0.0f}));
  EXPECT_EQ(example.lse()[0], minus_infinity);
}

TEST_P(Attention, CausalRowsSeeTheirPositionAndWhatIsBefore) {
  const Example example("b1 h1 q2 kv3 d1 f32 causal lse");
  fill(example.arguments.q, {0, 0});
  fill(example.arguments.v, {3, 6, 30});
  run(example);
  EXPECT_NEAR(example.out()[0], 4.5, tolerance * 10) << "aligned at the end: keys 0 and 1";
  EXPECT_NEAR(example.out()[1], 13, tolerance * 10);
  EXPECT_NEAR(example.lse()[1], std::log(3.0), tolerance);

  const Example before("b1 h1 q2 kv3 d1 f32 causal offset-1 lse");
  fill(before.arguments.v, {3, 6, 30});
  run(before);
  EXPECT_EQ(bits(before.out()), bits({0.0f, 3.0f})) << "the first query stands before all keys";
  EXPECT_EQ(before.lse()[0], minus_infinity);
}

TEST_P(Attention, LargeScoresNeitherOverflowNorLoseTheLesserKey) {
  Example example = two_keys("bias:k");
  fill(example.arguments.bias, {4999, 5000});
  run(example);
  EXPECT_NEAR(example.out()[0], weighted(std::exp(1 + 4999 - 5000), std::exp(-2)), 1e-2);
  EXPECT_NEAR(example.lse()[0], 5000 + std::log(std::exp(0) + std::exp(-2)), 1e-2);
}

TEST_P(Attention, GroupedHeadsShareTheKvHeadOfTheirGroup) {
  const Example example("b1 h6/3 q1 kv1 d1 f32");
  fill(example.arguments.v, {7, 8, 9});
  run(example);
  EXPECT_EQ(example.out(), (std::vector<float>{7, 7, 8, 8, 9, 9}));
}

TEST_P(Attention, ResultsAreRoundedOnceToTheElementType) {
  for (const char* type : {"f16", "bf16"}) {
    const Example example(std::string("b1 h1 q1 kv2 d1 lse ") + type);
    fill(example.arguments.q, {0});
    fill(example.arguments.v, {1, 1.0f + 0x1p-7f});
    run(example);
    const float mean = 1.0f + 0x1p-8f;
    EXPECT_EQ(example.out()[0], type == std::string("f16") ? mean : 1.0f) << "a tie goes to even";
    EXPECT_NEAR(example.lse()[0], std::log(2.0), tolerance) << "lse stays f32";
  }
}

// The same values behind other strides.
void copy(const Tensor& from, const Tensor& to) { fill(to, values(from)); }

void copy_heads(const Example& from, const Example& to) {
  copy(from.arguments.q, to.arguments.q);
  copy(from.arguments.alibi, to.arguments.alibi);
  copy(from.arguments.sinks, to.arguments.sinks);
}

void expect_same_bits(const Example& got, const Example& expected) {
  EXPECT_EQ(bits(got.out()), bits(expected.out())) << got.problem.to_string();
  EXPECT_EQ(bits(got.lse()), bits(expected.lse())) << got.problem.to_string();
}

// Heads, dims and extras that every storage must treat alike.
std::string rich(std::string_view sizes, std::string_view type) {
  return std::string(sizes) + " h4/2 d20/12 " + std::string(type) +
         " causal window5 alibi softcap20 sinks lse ";
}

TEST_P(Attention, PagedKeysGiveTheBitsOfContiguousOnes) {
  for (const char* type : {"f32", "f16", "bf16"}) {
    const Example plain(rich("b2 q3 kv11", type));
    const Example paged(rich("b2 q3 kv11", type) + "page4", 2);
    copy_heads(plain, paged);
    const auto* table = static_cast<const std::int32_t*>(paged.arguments.page_table.data);
    const auto scatter = [&](const Tensor& from, const Tensor& to) {
      for_each_position(from.size, [&](const Shape& at) {
        const std::int64_t page = table[at[0] * 3 + at[1] / 4];
        set(to, {page, at[1] % 4, at[2], at[3]}, get(from, at));
      });
    };
    scatter(plain.arguments.k, paged.arguments.k);
    scatter(plain.arguments.v, paged.arguments.v);
    run(plain);
    run(paged);
    expect_same_bits(paged, plain);
  }
}

// Rows [first, first + count) of a tensor's axis.
Tensor rows(Tensor tensor, std::size_t axis, std::int64_t first, std::int64_t count) {
  tensor.data =
      static_cast<char*>(tensor.data) + first * tensor.stride[axis] * size_in_bytes(tensor.dtype);
  tensor.size[axis] = count;
  return tensor;
}

TEST_P(Attention, PackedSequencesGiveTheBitsOfEachAlone) {
  const std::vector<std::int32_t> q_starts = {0, 5, 5, 7}, kv_starts = {0, 7, 9, 9};
  for (const char* type : {"f32", "bf16"}) {
    Example packed(rich("b3 q5 kv7", type) + "varlen7/9");
    packed.arguments.q_starts = packed.integers(q_starts);
    packed.arguments.kv_starts = packed.integers(kv_starts);
    run(packed);
    for (std::size_t i = 0; i < 3; ++i) {
      const std::int64_t q_len = q_starts[i + 1] - q_starts[i];
      const std::int64_t kv_len = kv_starts[i + 1] - kv_starts[i];
      const Example alone(
          rich("b1 q" + std::to_string(q_len) + " kv" + std::to_string(kv_len), type), 2);
      copy(packed.arguments.alibi, alone.arguments.alibi);
      copy(packed.arguments.sinks, alone.arguments.sinks);
      copy(rows(packed.arguments.q, 1, q_starts[i], q_len), alone.arguments.q);
      copy(rows(packed.arguments.k, 1, kv_starts[i], kv_len), alone.arguments.k);
      copy(rows(packed.arguments.v, 1, kv_starts[i], kv_len), alone.arguments.v);
      run(alone);
      EXPECT_EQ(bits(values(rows(packed.arguments.out, 1, q_starts[i], q_len))), bits(alone.out()))
          << "sequence " << i;
      EXPECT_EQ(bits(values(rows(packed.arguments.lse, 2, q_starts[i], q_len))), bits(alone.lse()))
          << "sequence " << i;
    }
  }
}

TEST_P(Attention, KeysPastALengthDoNotReachTheResultWhateverTheyHold) {
  Example shortened(rich("b2 q3 kv9", "f32") + "kv_lengths");
  shortened.arguments.kv_lengths = shortened.integers({6, 6});
  const Example plain(rich("b2 q3 kv6", "f32"), 2);
  copy_heads(shortened, plain);
  copy(rows(shortened.arguments.k, 1, 0, 6), plain.arguments.k);
  copy(rows(shortened.arguments.v, 1, 0, 6), plain.arguments.v);
  for (const Tensor& tensor : {shortened.arguments.k, shortened.arguments.v}) {
    const Tensor unused = rows(tensor, 1, 6, 3);
    for_each_position(unused.size, [&](const Shape& at) { set(unused, at, std::nanf("")); });
  }
  run(shortened);
  run(plain);
  expect_same_bits(shortened, plain);
}

TEST_P(Attention, TheLayoutDoesNotChangeABit) {
  for (const char* type : {"f32", "f16", "bf16"}) {
    const Example plain(rich("b2 q3 kv11", type));
    for (const char* layout :
         {"bhsd", "q@999,333,41 k@900,51,23 out@777,99,13", "bhsd v@0,13,177 lse@100,1,7"}) {
      const Example other(rich("b2 q3 kv11", type) + layout, 2);
      copy_heads(plain, other);
      copy(plain.arguments.k, other.arguments.k);
      if (other.problem.v[0] == 0) {  // every sequence reads the first one's values
        copy(rows(plain.arguments.v, 0, 0, 1), rows(plain.arguments.v, 0, 1, 1));
      }
      copy(plain.arguments.v, other.arguments.v);
      run(plain);
      run(other);
      expect_same_bits(other, plain);
    }
  }
}

TEST_P(Attention, ZeroQueriesZeroKeysAndZeroSequencesAreValid) {
  for (const char* sizes : {"b2 q0 kv5", "b0 q3 kv5", "b0 q0 kv0"}) {
    const Example example(rich(sizes, "f32"));
    EXPECT_NO_THROW(run(example)) << sizes;
  }
  const Example no_keys("b2 h2 q3 kv0 d4 f32 lse");
  run(no_keys);
  EXPECT_EQ(bits(no_keys.out()), bits(std::vector<float>(2 * 3 * 2 * 4, 0.0f)));
  EXPECT_EQ(no_keys.lse(), std::vector<float>(2 * 2 * 3, minus_infinity));

  const Example sinking("b2 h2 q3 kv0 d4 f32 sinks lse");
  fill(sinking.arguments.sinks, {1.5f, -2});
  run(sinking);
  EXPECT_EQ(bits(sinking.out()), bits(std::vector<float>(2 * 3 * 2 * 4, 0.0f)));
  for_each_position(sinking.arguments.lse.size, [&](const Shape& at) {
    EXPECT_EQ(get(sinking.arguments.lse, at), at[1] == 0 ? 1.5f : -2.0f);
  });
}

TEST(AttentionInOneCall, PlansAllocatesAndRuns) {
  const Example example = two_keys("");
  attention(example.arguments, {.scale = 1.0f}, two_threads());
  EXPECT_NEAR(example.out()[0], weighted(std::exp(1), std::exp(-2)), 10 * tolerance);
}

}  // namespace
}  // namespace rapt::test
