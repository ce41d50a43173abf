// Problem::of(): what arguments and options amount to; and flops and bytes of shapes that can be
// counted by hand.
#include "tests/unit/support.hpp"

namespace rapt::test {
namespace {

std::string described(const Arguments& arguments, const Options& options = {}) {
  return Problem::of(arguments, options).to_string();
}

TEST(ProblemOf, ArgumentsMadeFromAProblemGiveThatProblem) {
  for (const char* text :
       {"b2 h4/2 q3 kv5 d8 f32", "b2 h4/2 q3 kv5 d8/6 f16 bhsd lse", "b1 h1 s1 d1 bf16",
        "b3 h2 s7 d16 f32 bias:hqk mask:bk alibi sinks", "b3 h2 s4 d16 bf16 bias:hqk:f32",
        "b3 h2 s4 d16 f32 alibi:b", "b3 h1 s4 d16 f32 alibi:b", "b1 h2 s4 d16 f32 alibi:b",
        "b2 h2 s4 d16 f16 out:f32", "b2 h2 s8 d4 f32 q@100,9,4", "b2 h2 q0 kv5 d4 f32 lse",
        "b2 h2 q3 kv0 d4 f32 lse", "b0 h2 s3 d4 f32", "b2 h2 s6 d4 f32 lse@100,40,3 lse"}) {
    const Example example{std::string_view(text)};
    EXPECT_EQ(Problem::of(example.arguments), example.problem) << text;
  }
}

TEST(ProblemOf, PackedSequencesTakeTheirBoundsFromTheOptions) {
  const Example example("b3 h2 q5 kv6 d4 f32 varlen9/12");
  EXPECT_EQ(described(example.arguments, {.max_q_len = 5, .max_kv_len = 6}),
            "b3 h2 q5 kv6 d4 f32 varlen9/12");
  EXPECT_EQ(described(example.arguments), "b3 h2 q9 kv12 d4 f32 varlen9/12")
      << "without bounds one sequence may be everything";
}

TEST(ProblemOf, LengthsAreExpectedFullUnlessATotalIsGiven) {
  const Example example("b3 h2 q1 kv6 d4 f32 kv_lengths");
  EXPECT_EQ(described(example.arguments), "b3 h2 q1 kv6 d4 f32 kv_lengths");
  EXPECT_EQ(described(example.arguments, {.total_kv = 10}), "b3 h2 q1 kv6 d4 f32 kv_lengths10");
}

TEST(ProblemOf, PagedKeysAreBoundedByThePageTableOrTheOptions) {
  const Example example("b2 h2 q1 kv8 d4 f32 kv_lengths page4");
  EXPECT_EQ(described(example.arguments), "b2 h2 q1 kv8 d4 f32 kv_lengths page4");
  EXPECT_EQ(described(example.arguments, {.max_kv_len = 7}),
            "b2 h2 q1 kv7 d4 f32 kv_lengths page4");
}

TEST(ProblemOf, APoolOfOnePageGivesTheSameProblemAsAGrownPool) {
  const Example one("b1 h2 q1 kv4 d4 f32 page4"), many("b1 h2 q1 kv16 d4 f32 page4");
  ASSERT_EQ(one.arguments.k.size[0], 1);
  ASSERT_EQ(many.arguments.k.size[0], 4);
  Arguments small = one.arguments;
  small.k.stride[0] = small.v.stride[0] = 0;
  EXPECT_EQ(Problem::of(small), Problem::of(many.arguments, {.max_kv_len = 4}));
}

TEST(ProblemOf, PackedQueriesMayReadPagedKeys) {
  const Example example("b2 h2 q3 kv8 d4 f32 varlen5 page4");
  EXPECT_EQ(described(example.arguments, {.max_q_len = 3}), "b2 h2 q3 kv8 d4 f32 varlen5 page4");
}

TEST(ProblemOf, AnAxisOfSizeOneOrStrideZeroIsBroadcast) {
  const Example example("b2 h3 q4 kv5 d4 f32");
  const std::vector<float> memory(2 * 3 * 4 * 5);
  Arguments a = example.arguments;
  a.bias = Tensor::dense(memory.data(), DType::f32, {2, 3, 4, 5});
  EXPECT_EQ(described(a), "b2 h3 q4 kv5 d4 f32 bias:bhqk");
  a.bias = Tensor::dense(memory.data(), DType::f32, {1, 3, 1, 5});
  EXPECT_EQ(described(a), "b2 h3 q4 kv5 d4 f32 bias:hk");
  a.bias = Tensor::dense(memory.data(), DType::f32, {1, 1, 1, 1});
  EXPECT_EQ(described(a), "b2 h3 q4 kv5 d4 f32 bias:1");
  a.bias = {const_cast<float*>(memory.data()), DType::f32, {2, 3, 4, 5}, {0, 5, 0, 1}};
  EXPECT_EQ(described(a), "b2 h3 q4 kv5 d4 f32 bias:hk") << "as expanded tensors are";
  a.bias = {const_cast<float*>(memory.data()), DType::f32, {2, 3, 4, 5}, {12, 4, 1, 0}};
  EXPECT_EQ(described(a), "b2 h3 q4 kv5 d4 f32 bias:bhq");
}

TEST(ProblemOf, StridesOfIdleAxesDoNotMatter) {
  const Example example("b1 h1 s4 d4 f32 lse");
  Arguments a = example.arguments;
  a.q.stride[0] = 12345;
  a.k.stride[2] = -7;
  a.out.stride[0] = 1;
  a.lse.stride[1] = 99;
  EXPECT_EQ(Problem::of(a), example.problem);
}

TEST(ProblemOf, TransposedDataIsAnotherLayout) {
  const Example example("b2 h3 s5 d4 f32");
  Arguments a = example.arguments;
  for (Tensor* tensor : {&a.q, &a.k, &a.v, &a.out})
    *tensor = Tensor::dense(tensor->data, DType::f32, {2, 3, 5, 4}).transposed(1, 2);
  EXPECT_EQ(described(a), "b2 h3 s5 d4 f32 bhsd");
}

TEST(ProblemOf, AlignmentIsThatOfTheWorstPointerOrStride) {
  const Example example("b1 h2 q2 kv4 d16 f16 q@0,32,16");
  EXPECT_EQ(Problem::of(example.arguments).alignment, 16);
  for (const auto& [bytes, alignment] : {std::pair{2, 2}, {4, 4}, {8, 8}, {12, 4}, {32, 16}}) {
    Arguments a = example.arguments;
    a.k.size[1] = a.v.size[1] = 3;  // leaves room to move
    a.k.data = static_cast<char*>(a.k.data) + bytes;
    EXPECT_EQ(Problem::of(a).alignment, alignment) << bytes;
  }
  const Example odd("b1 h1 s3 d5 bf16");
  EXPECT_EQ(Problem::of(odd.arguments).alignment, 2);
}

TEST(ProblemOf, OptionsBecomeFields) {
  const Example example("b1 h2 q3 kv5 d4 f32");
  const Problem p =
      Problem::of(example.arguments, {.causal = true,
                                      .window = {.left = 2, .right = {}, .first_keys = 1},
                                      .offset = -1,
                                      .scale = 0.125f,
                                      .softcap = 20,
                                      .batch_invariant = true,
                                      .tf32 = true});
  EXPECT_EQ(p.to_string(),
            "b1 h2 q3 kv5 d4 f32 causal window2+1 offset-1 softcap20 scale0.125 batch-invariant "
            "tf32");
  EXPECT_TRUE(p.causal());
  EXPECT_EQ(Problem::of(example.arguments, {.row_invariant = true}).to_string(),
            "b1 h2 q3 kv5 d4 f32 batch-invariant:rows");
}

TEST(ProblemOf, OptionsThatContradictOrHaveNoEffectAreRefused) {
  const Example example("b1 h2 q3 kv5 d4 f32");
  const auto refuses = [&](const Options& options, std::string_view part) {
    return throws(ErrorCode::invalid_argument, part,
                  [&] { Problem::of(example.arguments, options); });
  };
  EXPECT_TRUE(refuses({.causal = true, .window = {.left = 2, .right = 9}}, "window.right is 9"));
  EXPECT_TRUE(refuses({.max_q_len = 3}, "max_q_len is given, but it belongs to packed queries"));
  EXPECT_TRUE(refuses({.max_kv_len = 5}, "max_kv_len is given, but it belongs to packed or paged"));
  EXPECT_TRUE(
      refuses({.total_kv = 5}, "total_kv is given, but it belongs to keys with kv_lengths"));
}

double flops(std::string_view text) { return Problem::parse(text).flops(); }
double bytes(std::string_view text) { return Problem::parse(text).bytes(); }

TEST(ProblemWork, FlopsOfWellKnownShapes) {
  EXPECT_EQ(flops("b2 h3 q4 kv5 d8 f32"), 2.0 * 16 * (2 * 3) * (4 * 5));
  EXPECT_EQ(flops("b1 h1 s4 d8/6 f32 causal"), 2.0 * 14 * (1 + 2 + 3 + 4));
  EXPECT_EQ(flops("b1 h1 q2 kv4 d8 f32 causal"), 2.0 * 16 * (3 + 4)) << "aligned at the end";
  EXPECT_EQ(flops("b1 h1 q2 kv4 d8 f32 causal offset0"), 2.0 * 16 * (1 + 2));
  EXPECT_EQ(flops("b1 h1 s4 d8 f32 causal window1"), 2.0 * 16 * (1 + 2 + 2 + 2));
  EXPECT_EQ(flops("b1 h1 s4 d8 f32 window1:1"), 2.0 * 16 * (2 + 3 + 3 + 2));
  EXPECT_EQ(flops("b1 h1 s5 d8 f32 causal window1+2"), 2.0 * 16 * (1 + 2 + 3 + 4 + 4));
  EXPECT_EQ(flops("b2 h32/8 q1 kv8192 d128 bf16 causal page16"), 2.0 * 256 * (2 * 32) * 8192);
  EXPECT_EQ(flops("b2 h2 q3 kv8 d8 f32 kv_lengths6"), 2.0 * 16 * 2 * (3 * 6)) << "expected lengths";
  EXPECT_EQ(flops("b2 h2 q9 kv9 d8 f32 varlen6/8"), 2.0 * 16 * 2 * 2 * (3 * 4)) << "mean lengths";
  EXPECT_EQ(flops("b2 h2 q0 kv9 d8 f32"), 0);
  EXPECT_EQ(flops("b0 h2 s9 d8 f32 causal"), 0);
}

TEST(ProblemWork, BytesCountEveryTensorOnceAndOnlyKeysThatAreSeen) {
  EXPECT_EQ(bytes("b1 h2 q3 kv4 d8/6 f32"), 4.0 * (3 * 2 * 14 + 4 * 2 * 14));
  EXPECT_EQ(bytes("b1 h2 q3 kv4 d8/6 f32 lse"), 4.0 * (3 * 2 * 14 + 4 * 2 * 14 + 3 * 2));
  EXPECT_EQ(bytes("b2 h32/8 q1 kv8192 d128 bf16 causal"),
            2.0 * (2 * 32 * 256 + 2 * 8192.0 * 8 * 256));
  EXPECT_EQ(bytes("b1 h1 q1 kv100 d8 f16 causal window9"), 2.0 * (16 + 10 * 16));
  EXPECT_EQ(bytes("b1 h1 q1 kv100 d8 f16 causal window9+4"), 2.0 * (16 + 14 * 16));
  EXPECT_EQ(bytes("b1 h1 q1 kv100 d8 f16 causal window9+99"), 2.0 * (16 + 100 * 16));
  EXPECT_EQ(bytes("b1 h1 q2 kv100 d8 f16 causal offset0"), 2.0 * (2 * 16 + 2 * 16));
  EXPECT_EQ(bytes("b2 h2 q3 kv4 d8 f16 bias:hqk mask:bk"),
            2.0 * (2 * 3 * 2 * 16 + 2 * 4 * 2 * 16) + 2.0 * (2 * 3 * 4) + 1.0 * (2 * 4));
  EXPECT_EQ(bytes("b2 h2 q0 kv9 d8 f32"), 0);
}

}  // namespace
}  // namespace rapt::test
