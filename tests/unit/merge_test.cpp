// merge(): two attentions over disjoint keys become the attention over all of them.
#include <cmath>
#include <limits>

#include "tests/conformance/random_merge.hpp"
#include "tests/unit/counting_allocator.hpp"
#include "tests/unit/support.hpp"

namespace rapt::test {
namespace {

constexpr ErrorCode invalid = ErrorCode::invalid_argument;
constexpr float minus_infinity = -std::numeric_limits<float>::infinity();
constexpr std::int64_t q_len = 5, kv_len = 13, heads = 4, dim = 6;

Tensor keys(Tensor tensor, std::int64_t first, std::int64_t count) {
  tensor.data =
      static_cast<char*>(tensor.data) + first * tensor.stride[1] * size_in_bytes(tensor.dtype);
  tensor.size[1] = count;
  return tensor;
}

// out and lse of their own, strided if `room` is above 0.
struct OwnedPartial {
  std::vector<float> out_memory, lse_memory;
  Partial partial;

  OwnedPartial(DType dtype, std::int64_t batch, std::int64_t room)
      : out_memory(std::size_t(batch * q_len * heads * (dim + room)), std::nanf("")),
        lse_memory(std::size_t(batch * heads * q_len * (1 + room)), std::nanf("")) {
    const std::int64_t row = dim + room;
    partial.out = {out_memory.data(),
                   dtype,
                   {batch, q_len, heads, dim},
                   {q_len * heads * row, heads * row, row, 1}};
    partial.lse = {lse_memory.data(),
                   DType::f32,
                   {batch, heads, q_len, 1},
                   {heads * q_len * (1 + room), q_len * (1 + room), 1 + room, 1}};
  }
};

struct Case {
  const char* type;
  std::int64_t split, room;
  float tolerance;
};

void PrintTo(const Case& c, std::ostream* stream) {
  *stream << c.type << " split at " << c.split << ", room " << c.room;
}

class MergedHalves : public ::testing::TestWithParam<Case> {};

TEST_P(MergedHalves, AreTheWhole) {
  const Case& c = GetParam();
  const Example whole(std::string("b2 h4/2 q5 kv13 d6 causal sinks lse ") + c.type);
  whole.run();
  const auto attend = [&](std::int64_t first, std::int64_t count, const Partial& result) {
    Arguments part = whole.arguments;
    part.k = keys(part.k, first, count);
    part.v = keys(part.v, first, count);
    if (first > 0) part.sinks = {};  // a sink belongs to one side
    part.out = result.out;
    part.lse = result.lse;
    attention(part, {.causal = true, .offset = kv_len - q_len - first}, two_threads());
  };
  const DType dtype = whole.problem.dtype;
  OwnedPartial first(dtype, 2, c.room), second(dtype, 2, 0), result(dtype, 2, c.room);
  attend(0, c.split, first.partial);
  attend(c.split, kv_len - c.split, second.partial);

  merge(first.partial, second.partial, result.partial, two_threads());
  const auto got = values(result.partial.out), expected = whole.out();
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], expected[i], c.tolerance) << "element " << i;
  const auto got_lse = values(result.partial.lse), expected_lse = whole.lse();
  ASSERT_EQ(got_lse.size(), expected_lse.size());
  for (std::size_t i = 0; i < got_lse.size(); ++i)
    EXPECT_NEAR(got_lse[i], expected_lse[i], 2e-6f) << "lse " << i;

  const auto separate = bits(values(result.partial.out));
  merge(first.partial, second.partial, first.partial, two_threads());
  EXPECT_EQ(bits(values(first.partial.out)), separate) << "in place of the first";
  attend(0, c.split, first.partial);
  merge(first.partial, second.partial, second.partial, two_threads());
  EXPECT_EQ(bits(values(second.partial.out)), separate) << "in place of the second";
}

// Two roundings of values below 1, of the half results and of the merged one.
INSTANTIATE_TEST_SUITE_P(Splits, MergedHalves,
                         ::testing::Values(Case{"f32", 1, 0, 1e-6f}, Case{"f32", 7, 0, 1e-6f},
                                           Case{"f32", 12, 3, 1e-6f}, Case{"f16", 5, 0, 0x1p-10f},
                                           Case{"f16", 11, 2, 0x1p-10f},
                                           Case{"bf16", 3, 0, 0x1p-7f},
                                           Case{"bf16", 9, 2, 0x1p-7f}));

// Rows of one value each, and their lse.
struct Row {
  float out, lse;
  Partial partial() {
    return {Tensor::dense(&out, DType::f32, {1, 1, 1, 1}),
            Tensor::dense(&lse, DType::f32, {1, 1, 1, 1})};
  }
};

Row merged(Row first, Row second) {
  Row result = {std::nanf(""), std::nanf("")};
  merge(first.partial(), second.partial(), result.partial(), two_threads());
  return result;
}

TEST(Merge, WeighsEachSideByTheExponentialOfItsLse) {
  const Row row = merged({10, std::log(3.0f)}, {20, std::log(1.0f)});
  EXPECT_NEAR(row.out, 12.5f, 1e-5f);
  EXPECT_NEAR(row.lse, std::log(4.0f), 1e-6f);
}

TEST(Merge, TwoEmptyRowsAreAnEmptyRow) {
  const Row row = merged({0, minus_infinity}, {0, minus_infinity});
  EXPECT_EQ(bits({row.out}), bits({0.0f}));
  EXPECT_EQ(row.lse, minus_infinity);
}

TEST(Merge, AnEmptySideIsNotLookedAt) {
  for (const Row& row : {merged({std::nanf(""), minus_infinity}, {7, 2.5f}),
                         merged({7, 2.5f}, {std::nanf(""), minus_infinity})}) {
    EXPECT_EQ(row.out, 7);
    EXPECT_EQ(row.lse, 2.5f);
  }
  const Row row = merged({std::nanf(""), minus_infinity}, {std::nanf(""), minus_infinity});
  EXPECT_EQ(bits({row.out}), bits({0.0f}));
}

TEST(Merge, LargeLseNeitherOverflowsNorVanishes) {
  const Row row = merged({10, 5000}, {20, 5000});
  EXPECT_EQ(row.out, 15);
  EXPECT_NEAR(row.lse, 5000 + std::log(2.0), 1e-3);
  EXPECT_EQ(merged({10, -5000}, {20, 5000}).out, 20);
}

TEST(Merge, ARowThatSawOnlyItsSinkScalesTheOtherDown) {
  const Row row = merged({0, 1.0f}, {8, 1.0f});
  EXPECT_NEAR(row.out, 4, 1e-6f);
  EXPECT_NEAR(row.lse, 1 + std::log(2.0), 1e-6f);
}

TEST(Merge, ASideCountsHoweverSmallItsWeight) {
  EXPECT_TRUE(std::isnan(merged({std::nanf(""), -5000}, {20, 5000}).out));
}

TEST(Merge, NaNInEitherLsePassesOn) {
  for (const float other : {1.0f, minus_infinity, -minus_infinity}) {
    for (const Row& row :
         {merged({1, std::nanf("")}, {2, other}), merged({1, other}, {2, std::nanf("")})}) {
      EXPECT_TRUE(std::isnan(row.out) && std::isnan(row.lse)) << other;
    }
  }
}

TEST(Merge, AnInfiniteLseStaysAndLeavesNothingOfOut) {
  const float infinity = -minus_infinity;
  for (const float other : {1.0f, minus_infinity, infinity}) {
    for (const Row& row : {merged({1, infinity}, {2, other}), merged({1, other}, {2, infinity})}) {
      EXPECT_TRUE(std::isnan(row.out)) << other;
      EXPECT_EQ(row.lse, infinity) << other;
    }
  }
}

TEST(Merge, IsRightWhateverTheSizesTypesStridesAndPlaceOfTheResult) {
  for (std::uint64_t seed = 0; seed < 300; ++seed)
    EXPECT_EQ(merge_fault(two_threads(), seed), "") << "seed " << seed;
}

// Counts the indices that it runs, one after another.
class OneByOne : public Executor {
 public:
  std::int32_t concurrency() const override { return 1; }
  void parallel_for(std::int64_t count, void (*body)(void*, std::int64_t), void* context) override {
    for (std::int64_t index = 0; index < count; ++index) body(context, index);
    ran += count;
  }
  std::int64_t ran = 0;
};

TEST(Merge, RunsOnTheCallersExecutor) {
  OneByOne own;
  EXPECT_EQ(merge_fault(two_threads(), 7, {.executor = &own}), "");
  EXPECT_GT(own.ran, 0);
}

TEST(Merge, AllocatesNothing) {
  OneByOne own;
  OwnedPartial first(DType::f32, 1, 0), second(DType::f32, 1, 0), result(DType::bf16, 1, 3);
  for (Executor* executor : {static_cast<Executor*>(&own), static_cast<Executor*>(nullptr)}) {
    const auto run = [&] {
      merge(first.partial, second.partial, result.partial, two_threads(), {.executor = executor});
    };
    run();  // rapt's own threads may have to start
    const std::int64_t before = allocations_so_far();
    run();
    EXPECT_EQ(allocations_so_far(), before);
  }
}

TEST(Merge, RefusesABackendThatThisBuildHasNot) {
  OwnedPartial partial(DType::f32, 1, 0);
  Device other;
  other.backend = Backend(9);
  EXPECT_TRUE(throws(ErrorCode::not_found, "this build of rapt has no unknown backend",
                     [&] { merge(partial.partial, partial.partial, partial.partial, other); }));
}

TEST(Merge, NothingToMergeIsValid) {
  const Partial empty = {Tensor::dense(nullptr, DType::f32, {1, 0, 4, 6}),
                         Tensor::dense(nullptr, DType::f32, {1, 4, 0, 1})};
  EXPECT_NO_THROW(merge(empty, empty, empty, two_threads()));
}

TEST(Merge, RefusesPartialsThatDoNotFitTogether) {
  OwnedPartial first(DType::f32, 1, 0), second(DType::f32, 1, 0), result(DType::f32, 1, 0);
  const auto expect_refused = [&](std::string_view sentence, auto spoil) {
    Partial a = first.partial, b = second.partial, c = result.partial;
    spoil(a, b, c);
    EXPECT_TRUE(throws(invalid, sentence, [&] { merge(a, b, c, two_threads()); }));
  };
  using P = Partial&;
  constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  expect_refused("first.out has a negative size", [](P a, P, P) { a.out.size[1] = -1; });
  expect_refused("second.out has sizes 1 × 4 × 4 × 6; 1 × 5 × 4 × 6 are wanted",
                 [](P, P b, P) { b.out.size[1] = 4; });
  expect_refused("result.lse has sizes 1 × 4 × 4 × 1", [](P, P, P c) { c.lse.size[2] = 4; });
  expect_refused("first.out is i32; it must be", [](P a, P, P) { a.out.dtype = DType::i32; });
  expect_refused("second.out is none", [](P, P b, P) { b.out.dtype = DType::none; });
  expect_refused("result.out is unknown", [](P, P, P c) { c.out.dtype = DType(50); });
  expect_refused("second.lse is f16; it must be", [](P, P b, P) { b.lse.dtype = DType::f16; });
  expect_refused("first.out's data is null", [](P a, P, P) { a.out.data = nullptr; });
  expect_refused("result.lse's data is null", [](P, P, P c) { c.lse.data = nullptr; });
  expect_refused("second.out's address is not aligned",
                 [](P, P b, P) { b.out.data = static_cast<char*>(b.out.data) + 1; });
  expect_refused("first.out has a stride of -6", [](P a, P, P) { a.out.stride[2] = -6; });
  expect_refused("first.out's last axis has stride 2", [](P a, P, P) { a.out.stride[3] = 2; });
  expect_refused("first.out spans more bytes", [](P a, P, P) { a.out.stride[1] = huge; });
  expect_refused("result.out overlaps itself", [](P, P, P c) { c.out.stride[1] = 0; });
  expect_refused("result.lse overlaps itself", [](P, P, P c) { c.lse.stride[1] = 0; });
  expect_refused("result.out overlaps itself", [](P a, P b, P c) {
    for (Partial* partial : {&a, &b, &c}) {  // more rows than 64 bits can count
      partial->out.size = {std::int64_t{1} << 40, std::int64_t{1} << 40, 1, 1};
      partial->lse.size = {std::int64_t{1} << 40, 1, std::int64_t{1} << 40, 1};
      partial->out.stride = partial->lse.stride = {0, 0, 0, 1};
    }
  });
}

TEST(Merge, RefusesAResultThatSharesOnlyPartOfASidesMemoryOrLiesThereOtherwise) {
  OwnedPartial first(DType::f32, 1, 2), second(DType::f32, 1, 2), result(DType::f32, 1, 2);
  const auto expect_refused = [&](std::string_view sentence, auto change) {
    Partial a = first.partial, b = second.partial, c = result.partial;
    change(a, b, c);
    EXPECT_TRUE(throws(invalid, sentence, [&] { merge(a, b, c, two_threads()); }));
  };
  const auto later = [](const Tensor& tensor, std::int64_t elements) -> void* {
    return static_cast<float*>(tensor.data) + elements;
  };
  using P = Partial&;
  expect_refused("result.out shares memory with first.out; it needs memory of its own, or all of",
                 [&](P a, P, P c) { a.out.data = later(c.out, 8); });
  expect_refused("result.out shares memory with second.out",
                 [&](P, P b, P c) { b.out.data = later(c.out, 1); });
  expect_refused("result.out shares memory with first.out", [](P a, P, P c) {
    a.out.data = c.out.data;
    std::swap(a.out.stride[1], a.out.stride[2]);
  });
  expect_refused("result.out shares memory with first.out", [](P a, P, P c) {
    a.out.data = c.out.data;
    c.out.dtype = DType::bf16;
  });
  expect_refused("result.lse shares memory with second.lse",
                 [&](P, P b, P c) { c.lse.data = later(b.lse, 3); });
  expect_refused("result.lse shares memory with first.out",
                 [&](P a, P, P c) { c.lse.data = later(a.out, 3); });
  expect_refused("result.out shares memory with second.lse",
                 [&](P, P b, P c) { b.lse.data = later(c.out, 3); });
  expect_refused("result.out shares memory with result.lse",
                 [](P, P, P c) { c.lse.data = c.out.data; });
}

TEST(Merge, TakesEachResultInPlaceOfEitherSideAndBetweenTheRowsOfOne) {
  OwnedPartial first(DType::f32, 1, 8), second(DType::f32, 1, 8), result(DType::f32, 1, 8);
  const auto expect_taken = [&](auto change) {
    Partial a = first.partial, b = second.partial, c = result.partial;
    change(a, b, c);
    EXPECT_NO_THROW(merge(a, b, c, two_threads()));
  };
  using P = Partial&;
  expect_taken([](P a, P b, P c) { c = {a.out, b.lse}; });
  expect_taken([](P, P b, P c) { c.out = b.out; });
  expect_taken([](P a, P, P c) { c.out.data = static_cast<float*>(a.out.data) + dim; });
}

TEST(Merge, RefusesADeviceWithoutThreads) {
  OwnedPartial partial(DType::f32, 1, 0);
  Device none = two_threads();
  none.threads = -3;
  EXPECT_TRUE(throws(invalid, "the CPU device has -3 threads",
                     [&] { merge(partial.partial, partial.partial, partial.partial, none); }));
}

}  // namespace
}  // namespace rapt::test
