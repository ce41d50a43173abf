// Problem strings: parse and to_string are inverses, the order is canonical, and every error points
// at its token.
#include "src/verify/generator.hpp"
#include "tests/unit/support.hpp"

namespace rapt::test {
namespace {

constexpr ErrorCode invalid = ErrorCode::invalid_argument;

std::string canonical(std::string_view text) { return Problem::parse(text).to_string(); }

TEST(ProblemString, TheExamplesOfTheDocumentationPrintAsTheyAreWritten) {
  for (const char* text : {"b2 h32/8 q1 kv8192 d128 bf16 causal page16", "b1 h16 s2048 d64 f32",
                           "b4 h8 s1000 d96/64 f16 causal window128 softcap30 lse"})
    EXPECT_EQ(canonical(text), text);
}

TEST(ProblemString, EveryTokenPrintsAsItIsWritten) {
  for (const char* tokens : {"window128",
                             "window128:64",
                             "window128+4",
                             "window128:64+4",
                             "causal window2+9",
                             "window:64",
                             "causal",
                             "causal window0",
                             "offset0",
                             "offset-3",
                             "bias:hqk",
                             "bias:bhqk",
                             "bias:1",
                             "bias:k:f32",
                             "mask:bqk",
                             "mask:1",
                             "alibi",
                             "alibi:b",
                             "softcap30",
                             "softcap0.5",
                             "sinks",
                             "dropout0.5",
                             "dropout0.99609375",
                             "varlen",
                             "varlen5",
                             "varlen5/9",
                             "kv_lengths",
                             "kv_lengths7",
                             "varlen5/9 kv_lengths",
                             "page16",
                             "kv_lengths9 page3",
                             "varlen5 page16",
                             "bhsd",
                             "k@4096,512,128",
                             "q@4096,512,128 out@4096,512,128",
                             "scale0.1",
                             "lse",
                             "align4",
                             "align2",
                             "batch-invariant",
                             "batch-invariant:rows",
                             "tf32",
                             "lse@999,99,9 lse"}) {
    const std::string text = std::string("b2 h4/2 q3 kv11 d32 f16 ") + tokens;
    const Problem problem = Problem::parse(text);
    EXPECT_EQ(Problem::parse(problem.to_string()), problem) << text;
    for (std::string_view rest = tokens; !rest.empty();) {
      const std::string token(rest.substr(0, rest.find(' ')));
      rest.remove_prefix(std::min(token.size() + 1, rest.size()));
      EXPECT_NE((problem.to_string() + " ").find(" " + token + " "), std::string::npos)
          << text << " printed as " << problem.to_string();
    }
  }
}

TEST(ProblemString, OtherSpellingsPrintCanonically) {
  EXPECT_EQ(canonical("b1 h2 s8 d4 f32 window128:0"), "b1 h2 s8 d4 f32 causal window128");
  EXPECT_EQ(canonical("b1 h2 s8 d4 f32 window3:0+2"), "b1 h2 s8 d4 f32 causal window3+2");
  EXPECT_EQ(canonical("b1 h2 s8 d4 f32 window3:1+0"), "b1 h2 s8 d4 f32 window3:1");
  EXPECT_EQ(canonical("b1 h2 s8 d4 f32 window:0"), "b1 h2 s8 d4 f32 causal");
  EXPECT_EQ(canonical("b1 h2/2 q8 kv8 d4/4 f32"), "b1 h2 s8 d4 f32");
  EXPECT_EQ(canonical("b1 h2 q0 kv0 d4 f32"), "b1 h2 s0 d4 f32");
  EXPECT_EQ(canonical("  lse f32\td4 s8\nh2 b1 "), "b1 h2 s8 d4 f32 lse");
  EXPECT_EQ(canonical("s8 d4"), "b1 h1 s8 d4 f32");
  EXPECT_EQ(canonical("b1 h2 s8 d4 f32 bshd"), "b1 h2 s8 d4 f32");
  EXPECT_EQ(canonical("b1 h1 s8 d4 f32 bhsd"), "b1 h1 s8 d4 f32") << "the layouts are the same";
  EXPECT_EQ(canonical("b1 h2 s8 d4 f32 scale0.5"), "b1 h2 s8 d4 f32") << "0.5 is the default";
  EXPECT_EQ(canonical("b1 h2 s8 d4 f32 align16"), "b1 h2 s8 d4 f32");
  EXPECT_EQ(canonical("b1 h2 s8 d4 f32 bias:bqk"), "b1 h2 s8 d4 f32 bias:qk") << "b is 1";
  EXPECT_EQ(canonical("b1 h2 s8 d4 f32 bias:qk:f32"), "b1 h2 s8 d4 f32 bias:qk");
  EXPECT_EQ(canonical("b2 h2 s8 d4 f32 varlen16"), "b2 h2 s8 d4 f32 varlen") << "all rows";
  EXPECT_EQ(canonical("b2 h2 s8 d4 f32 varlen9/9"), "b2 h2 s8 d4 f32 varlen9");
  EXPECT_EQ(canonical("b2 h2 s8 d4 f32 q@64,8,4"), "b2 h2 s8 d4 f32") << "dense strides";
  EXPECT_EQ(canonical("b1 h2 s8 d4 f32 q@77,8,4"), "b1 h2 s8 d4 f32") << "an idle axis";
  EXPECT_EQ(canonical("b2 h2 s8 d4 sink lengths"), "b2 h2 s8 d4 f32 sinks kv_lengths")
      << "old names";
  EXPECT_EQ(canonical("b2 h2 s8 d4 lengths9 page3"), "b2 h2 s8 d4 f32 kv_lengths9 page3");
}

TEST(ProblemString, FieldsGetTheValuesOfTheirTokens) {
  const Problem p = Problem::parse(
      "b2 h6/3 q5 kv7 d8/4 bf16 window9:1+3 offset-2 bias:hk:f32 mask:bq alibi softcap30 sinks "
      "varlen6/11 kv_lengths bhsd scale0.25 lse align2 batch-invariant tf32");
  EXPECT_EQ(p.dtype, DType::bf16);
  EXPECT_EQ(p.batch, 2);
  EXPECT_EQ(p.heads, 6);
  EXPECT_EQ(p.kv_heads, 3);
  EXPECT_EQ(p.q_len, 5);
  EXPECT_EQ(p.kv_len, 7);
  EXPECT_EQ(p.qk_dim, 8);
  EXPECT_EQ(p.v_dim, 4);
  EXPECT_EQ(p.window, (Window{9, 1, 3}));
  EXPECT_EQ(p.offset, -2);
  EXPECT_EQ(p.bias.dtype, DType::f32);
  EXPECT_EQ(p.bias.varies, (std::array<bool, 4>{false, true, false, true}));
  EXPECT_EQ(p.bias.stride, (std::array<std::int64_t, 3>{0, 7, 0}));
  EXPECT_EQ(p.mask.dtype, DType::u8);
  EXPECT_EQ(p.mask.varies, (std::array<bool, 4>{true, false, true, false}));
  EXPECT_EQ(p.mask.stride, (std::array<std::int64_t, 3>{5, 0, 1}));
  EXPECT_TRUE(p.alibi && p.sinks && p.varlen && p.lengths && p.lse && p.batch_invariant && p.tf32);
  EXPECT_EQ(p.softcap, 30);
  EXPECT_EQ(p.total_q, 6);
  EXPECT_EQ(p.total_kv, 11);
  EXPECT_EQ(p.q, (Problem::Strides{0, 8, 6 * 8})) << "(batch, seq, head) of [1, head, total, dim]";
  EXPECT_EQ(p.scale, 0.25f);
  EXPECT_EQ(p.alignment, 2);
}

TEST(ProblemString, AScaleIsAnyFiniteNumber) {
  EXPECT_EQ(Problem::parse("s8 d4 scale-0.25").scale, -0.25f);
  EXPECT_EQ(Problem::parse("s8 d4 scale0").scale, 0);
  EXPECT_EQ(canonical("b1 h1 s8 d4 f32 scale-0.25"), "b1 h1 s8 d4 f32 scale-0.25");
  EXPECT_EQ(canonical("b1 h1 s8 d4 f32 scale0"), "b1 h1 s8 d4 f32 scale0");
}

TEST(ProblemString, ParsingWhatWasPrintedGivesTheSameProblem) {
  for (std::uint64_t seed = 0; seed < 5000; ++seed) {
    const Problem problem = verify::random_problem(seed);
    const std::string printed = problem.to_string();
    const Problem parsed = Problem::parse(printed);
    ASSERT_EQ(parsed.to_string(), printed) << "seed " << seed;
    ASSERT_EQ(parsed, problem) << printed;
  }
}

struct Fault {
  const char *text, *sentence;
};

void PrintTo(const Fault& fault, std::ostream* stream) { *stream << fault.text; }

class FaultyProblemString : public ::testing::TestWithParam<Fault> {};

TEST_P(FaultyProblemString, IsRefusedWithASentenceThatPointsAtTheFault) {
  EXPECT_TRUE(throws(invalid, GetParam().sentence, [] { Problem::parse(GetParam().text); }));
}

INSTANTIATE_TEST_SUITE_P(
    Tokens, FaultyProblemString,
    ::testing::Values(Fault{"s8 d4 sausage",
                            "cannot read 'sausage' at character 7 of the problem: no token"},
                      Fault{"s8 d4 f8", "'f8' at character 7"}, Fault{"s8 d4 causal5", "'causal5'"},
                      Fault{"s8 d4 lse1", "'lse1'"}, Fault{"s8 d4 tf32x", "'tf32x'"},
                      Fault{"s8 d4 batch-invariants", "'batch-invariants'"},
                      Fault{"s8 d4 batch-invariant batch-invariant:rows", "batch-invariant"},
                      Fault{"s8 d4 backward batch-invariant:rows", "sums over queries"},
                      Fault{"s8 d4 128", "'128'"}, Fault{"s8 d4 CAUSAL", "'CAUSAL'"},
                      Fault{"s8 d4 -", "'-'"}, Fault{"s8 d4 \xff\xfe", "at character 7"},
                      Fault{"s8 d4 x@1,2,3", "strides belong to one of q, k"},
                      Fault{"s8 d4 softcapnan", "'softcapnan'"}));

INSTANTIATE_TEST_SUITE_P(
    Duplicates, FaultyProblemString,
    ::testing::Values(Fault{"s8 d4 b1 b2", "'b2' at character 10 of the problem: it stands"},
                      Fault{"s8 d4 s8", "the query length stands there twice"},
                      Fault{"s8 q3 d4", "'q3' at character 4 of the problem: the query length"},
                      Fault{"kv3 s8 d4", "'s8' at character 5 of the problem: the kv length"},
                      Fault{"s8 d4 causal causal", "'causal' at character 14"},
                      Fault{"s8 d4 f16 f32", "the element type stands there twice"},
                      Fault{"s8 d4 bshd bhsd", "the layout stands there twice"},
                      Fault{"s8 d4 lse lse", "it stands there twice"},
                      Fault{"s8 d4 q@1,2,3 q@1,2,3", "'q@1,2,3' at character 15"},
                      Fault{"s8 d4 window1 window:1", "'window:1'"}));

INSTANTIATE_TEST_SUITE_P(
    Numbers, FaultyProblemString,
    ::testing::Values(
        Fault{"s8 d4 b", "'' is not a whole number"}, Fault{"s8 d4 b1.5", "'1.5' is not a whole"},
        Fault{"s8 d4 b+1", "'+1' is not"}, Fault{"s8 d4 b1x", "'1x' is not a whole number"},
        Fault{"s99999999999999999999 d4", "'99999999999999999999' is not a whole number of 64"},
        Fault{"s8 d4 h8/", "cannot read 'h8/'"}, Fault{"s8 d4 h8/4/2", "'4/2' is not"},
        Fault{"s8 d4 scale", "'' is not a number that fits f32"},
        Fault{"s8 d4 scale1e99", "'1e99' is not a number that fits f32"},
        Fault{"s8 d4 softcap0", "a soft cap is above 0"},
        Fault{"s8 d4 dropout0", "a probability is above 0"},
        Fault{"s8 d4 dropout", "'' is not a number that fits f64"},
        Fault{"s8 d4 window", "a bound is wanted"}, Fault{"s8 d4 window:", "cannot read 'window:'"},
        Fault{"s8 d4 window3:", "'' is not"}, Fault{"s8 d4 window3+", "'' is not"},
        Fault{"s8 d4 window+4", "a bound is wanted"}, Fault{"s8 d4 window3+4:2", "'4:2' is not"},
        Fault{"s8 d4 window3+4+5", "'4+5' is not"}, Fault{"s8 d4 offset1e3", "'1e3' is not"},
        Fault{"s8 d4 page0", "a page holds 1 token or more"}, Fault{"s8 d4 page", "'' is not"},
        Fault{"s8 d4 varlen3/", "cannot read 'varlen3/'"}, Fault{"s8 d4 lengthsx", "'lengthsx'"},
        Fault{"s8 d4 q@1,2", "three strides are wanted"}, Fault{"s8 d4 q@1,2,3,4", "'3,4' is not"},
        Fault{"s8 d4 q@", "three strides are wanted"}, Fault{"s8 d4 q@1,,3", "'' is not"},
        Fault{"s8 d4 bias", "axes are wanted"}, Fault{"s8 d4 bias:", "axes are wanted"},
        Fault{"s8 d4 bias:qh", "in the order b, h, q, k"}, Fault{"s8 d4 mask:qq", "once each"},
        Fault{"s8 d4 mask:qx", "'x' is not an axis"},
        Fault{"s8 d4 bias:qk:f16", "only f32 is written"},
        Fault{"s8 d4 mask:qk:f32", "only a bias has a type"}));

INSTANTIATE_TEST_SUITE_P(
    Wholes, FaultyProblemString,
    ::testing::Values(
        Fault{"", "incomplete: it needs s2048"}, Fault{"d4", "incomplete: it needs s2048"},
        Fault{"q3 d4", "it needs s2048, or q1 and kv8192"}, Fault{"kv3 d4", "q1 and kv8192"},
        Fault{"s8", "incomplete: it needs a head dim"},
        Fault{"s8 d4 causal window3:2", "'causal' and a window's right bound"},
        Fault{"s8 d4 causal window3:0", "'causal' and a window's right bound"},
        Fault{"s8 d4 varlen3/4 page2", "paged keys are not packed"},
        Fault{"s8 d4 varlen kv_lengths3", "'varlen' gives the total of packed keys already"},
        Fault{"s8 d4 kv_lengths9", "expected to sum to 9, more than batch × kv length"},
        Fault{"s8 d4 lse@1,2,3", "strides of lse but has no 'lse'"},
        Fault{"s8 d4 bias@1,2,3", "strides of bias but has no 'bias'"}));

INSTANTIATE_TEST_SUITE_P(
    Values, FaultyProblemString,
    ::testing::Values(Fault{"b-1 s8 d4", "batch is -1"}, Fault{"h0 s8 d4", "heads is 0"},
                      Fault{"h3/2 s8 d4", "3 heads cannot share 2 kv heads"},
                      Fault{"s-8 d4", "query length is -8"}, Fault{"s8 d0", "q·k dim is 0"},
                      Fault{"s8 d4/0", "v dim is 0"}, Fault{"s8 d4 scale-inf", "scale is -inf"},
                      Fault{"s8 d4 softcap-2", "soft cap is -2"},
                      Fault{"s8 d4 dropout1", "dropout is 1; it must be a probability"},
                      Fault{"s8 d4 dropout0.999", "rounds to 256/256"},
                      Fault{"s8 d4 dropout0.001", "the dropout is 0.001, which rounds to 0/256"},
                      Fault{"s8 d4 dropout0.1 batch-invariant", "is batch-invariant"},
                      Fault{"s8 d4 window-1", "left bound is -1"},
                      Fault{"s8 d4 window:-1", "right bound is -1"},
                      Fault{"s8 d4 window3+-1", "first keys beside the window is -1"},
                      Fault{"s8 d4 window:3+4", "4 first keys stand beside a window without"},
                      Fault{"s8 d4 align3", "an alignment is 1, 2, 4, 8 or 16"},
                      Fault{"s8 d4 align64", "an alignment is 1, 2, 4, 8 or 16"},
                      Fault{"s8 d4 align2", "power of two from 4"},
                      Fault{"s9223372036854775807 d4", "rapt's limit is 2^48"},
                      Fault{"b16777216 h16777216 s16777216 d4", "overflows 64 bits"},
                      Fault{"h2 s8 d4 q@8,-8,4", "q has a stride of -8"},
                      Fault{"h2 s8 d4 out@64,4,4", "out overlaps itself"},
                      Fault{"s8 d4 offset9223372036854775807", "either way"}));

}  // namespace
}  // namespace rapt::test
