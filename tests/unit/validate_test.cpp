// Tensors that do not fit together, one fault at a time: Problem::of() names the tensor, the value
// and the limit. Faults of a problem's own fields: Problem::validate().
#include <cmath>
#include <functional>
#include <limits>

#include "tests/unit/support.hpp"

namespace rapt::test {
namespace {

constexpr ErrorCode invalid = ErrorCode::invalid_argument;
constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();

struct ArgumentsFault {
  const char* name;
  std::function<void(Arguments&)> spoil;
  const char* sentence;
};

void PrintTo(const ArgumentsFault& fault, std::ostream* stream) { *stream << fault.name; }

void* moved(const Tensor& tensor, int bytes) { return static_cast<char*>(tensor.data) + bytes; }

// Good arguments with every optional tensor, then one thing spoilt.
class FaultyArguments : public ::testing::TestWithParam<ArgumentsFault> {
 protected:
  void expect_refused(std::string_view problem) {
    const Example example(problem);
    ASSERT_NO_THROW(Problem::of(example.arguments)) << "the arguments were good before";
    Arguments arguments = example.arguments;
    GetParam().spoil(arguments);
    EXPECT_TRUE(throws(invalid, GetParam().sentence, [&] { Problem::of(arguments); }));
  }
};

class FaultyDenseArguments : public FaultyArguments {};
TEST_P(FaultyDenseArguments, AreRefusedByName) {
  expect_refused("b2 h4/2 q3 kv5 d8/6 f32 bias:bhqk mask:bhqk alibi sinks lse");
}

INSTANTIATE_TEST_SUITE_P(
    Pointers, FaultyDenseArguments,
    ::testing::Values(
        ArgumentsFault{"null q", [](auto& a) { a.q.data = nullptr; }, "q's data is null"},
        ArgumentsFault{"null k", [](auto& a) { a.k.data = nullptr; }, "k's data is null"},
        ArgumentsFault{"null v", [](auto& a) { a.v.data = nullptr; }, "v's data is null"},
        ArgumentsFault{"null out", [](auto& a) { a.out.data = nullptr; }, "out's data is null"},
        ArgumentsFault{"null lse", [](auto& a) { a.lse.data = nullptr; }, "lse's data is null"},
        ArgumentsFault{"null bias", [](auto& a) { a.bias.data = nullptr; }, "bias's data is null"},
        ArgumentsFault{"null mask", [](auto& a) { a.mask.data = nullptr; }, "mask's data is null"},
        ArgumentsFault{"null alibi", [](auto& a) { a.alibi.data = nullptr; }, "alibi's data is"},
        ArgumentsFault{"null sinks", [](auto& a) { a.sinks.data = nullptr; }, "sinks's data is"},
        ArgumentsFault{"odd q", [](auto& a) { a.q.data = moved(a.q, 1); },
                       "q's address is not aligned to its element size of 4 bytes"},
        ArgumentsFault{"odd out", [](auto& a) { a.out.data = moved(a.out, 2); },
                       "out's address is not aligned to its element size of 4 bytes"},
        ArgumentsFault{"odd lse", [](auto& a) { a.lse.data = moved(a.lse, 2); },
                       "lse's address is not aligned to 4 bytes"},
        ArgumentsFault{"odd bias", [](auto& a) { a.bias.data = moved(a.bias, 3); },
                       "bias's address is not aligned to 4 bytes"},
        ArgumentsFault{"odd sinks", [](auto& a) { a.sinks.data = moved(a.sinks, 1); },
                       "sinks's address is not aligned to 4 bytes"}));

INSTANTIATE_TEST_SUITE_P(
    Presence, FaultyDenseArguments,
    ::testing::Values(ArgumentsFault{"no q", [](auto& a) { a.q = {}; }, "q is missing"},
                      ArgumentsFault{"no k", [](auto& a) { a.k = {}; }, "k is missing"},
                      ArgumentsFault{"no v", [](auto& a) { a.v = {}; }, "v is missing"},
                      ArgumentsFault{"no out", [](auto& a) { a.out = {}; }, "out is missing"},
                      ArgumentsFault{"kv_starts alone", [](auto& a) { a.kv_starts = a.sinks; },
                                     "kv_starts is given but the problem has none"}));

INSTANTIATE_TEST_SUITE_P(
    Types, FaultyDenseArguments,
    ::testing::Values(
        ArgumentsFault{"i32 q", [](auto& a) { a.q.dtype = DType::i32; },
                       "the element type is i32; it must be f32, f16 or bf16"},
        ArgumentsFault{"unknown q", [](auto& a) { a.q.dtype = DType(77); }, "element type is 77"},
        ArgumentsFault{"negative q", [](auto& a) { a.q.dtype = DType(-1); }, "element type is -1"},
        ArgumentsFault{"f16 k", [](auto& a) { a.k.dtype = DType::f16; },
                       "k is f16; the problem wants f32"},
        ArgumentsFault{"u8 v", [](auto& a) { a.v.dtype = DType::u8; },
                       "v is u8; the problem wants f32"},
        ArgumentsFault{"unknown out", [](auto& a) { a.out.dtype = DType(99); },
                       "out's element type is 99"},
        ArgumentsFault{"f16 lse", [](auto& a) { a.lse.dtype = DType::f16; },
                       "lse is f16; the problem wants f32"},
        ArgumentsFault{"f16 bias", [](auto& a) { a.bias.dtype = DType::f16; },
                       "the bias is f16; it must be f32"},
        ArgumentsFault{"f32 mask", [](auto& a) { a.mask.dtype = DType::f32; },
                       "the mask is f32; it must be u8"},
        ArgumentsFault{"unknown mask", [](auto& a) { a.mask.dtype = DType(1000); },
                       "the mask is unknown"},
        ArgumentsFault{"i32 alibi", [](auto& a) { a.alibi.dtype = DType::i32; },
                       "alibi is i32; the problem wants f32"}));

INSTANTIATE_TEST_SUITE_P(
    Sizes, FaultyDenseArguments,
    ::testing::Values(
        ArgumentsFault{"q's batch", [](auto& a) { a.q.size[0] = 3; },
                       "k's batch axis has size 2; the problem wants 3"},
        ArgumentsFault{"negative q", [](auto& a) { a.q.size[1] = -1; }, "q has an axis of size -1"},
        ArgumentsFault{"most negative v", [](auto& a) { a.v.size[3] = least; },
                       "v has an axis of size -9223372036854775808"},
        ArgumentsFault{"huge batch", [](auto& a) { a.q.size[0] = huge; },
                       "batch is 9223372036854775807; rapt's limit is 2^48"},
        ArgumentsFault{"huge q length", [](auto& a) { a.q.size[1] = huge; }, "rapt's limit"},
        ArgumentsFault{"huge kv length", [](auto& a) { a.k.size[1] = huge; },
                       "the kv length is 9223372036854775807"},
        ArgumentsFault{"huge dim", [](auto& a) { a.q.size[3] = huge; }, "the q·k dim is"},
        ArgumentsFault{"overflowing product",
                       [](auto& a) { a.q.size[0] = a.q.size[1] = std::int64_t{1} << 40; },
                       "batch × query heads × query length is"},
        ArgumentsFault{"overflowing extent", [](auto& a) { a.q.stride[1] = std::int64_t{1} << 61; },
                       "q spans more bytes than 64-bit indexing reaches"},
        ArgumentsFault{"no heads", [](auto& a) { a.q.size[2] = 0; }, "number of heads is 0"},
        ArgumentsFault{"no kv heads", [](auto& a) { a.k.size[2] = 0; }, "kv heads is 0"},
        ArgumentsFault{"three kv heads", [](auto& a) { a.k.size[2] = 3; },
                       "4 heads cannot share 3 kv heads evenly"},
        ArgumentsFault{"no dim", [](auto& a) { a.q.size[3] = 0; }, "the q·k dim is 0"},
        ArgumentsFault{"no v dim", [](auto& a) { a.v.size[3] = 0; }, "the v dim is 0"},
        ArgumentsFault{"k's dim", [](auto& a) { a.k.size[3] = 7; },
                       "k's dim axis has size 7; the problem wants 8"},
        ArgumentsFault{"v's heads", [](auto& a) { a.v.size[2] = 1; },
                       "v's head axis has size 1; the problem wants 2"},
        ArgumentsFault{"v's length", [](auto& a) { a.v.size[1] = 4; },
                       "v's seq axis has size 4; the problem wants 5"},
        ArgumentsFault{"out's dim", [](auto& a) { a.out.size[3] = 8; },
                       "out's dim axis has size 8; the problem wants 6"},
        ArgumentsFault{"out's length", [](auto& a) { a.out.size[1] = 2; },
                       "out's seq axis has size 2; the problem wants 3"},
        ArgumentsFault{"lse's heads", [](auto& a) { a.lse.size[1] = 2; },
                       "lse's head axis has size 2; the problem wants 4"},
        ArgumentsFault{"lse's fourth axis", [](auto& a) { a.lse.size[3] = 2; },
                       "lse's last axis has size 2; the problem wants 1"},
        ArgumentsFault{"bias's q", [](auto& a) { a.bias.size[2] = 2; },
                       "bias's q axis has size 2; it must be 3 or 1 (broadcast)"},
        ArgumentsFault{"negative mask", [](auto& a) { a.mask.size[3] = -5; },
                       "mask has an axis of size -5"},
        ArgumentsFault{"alibi's heads", [](auto& a) { a.alibi.size[0] = 2; },
                       "alibi's head axis has size 2; the problem wants 4"},
        ArgumentsFault{"sinks in two axes", [](auto& a) { a.sinks.size[1] = 2; },
                       "sinks's second axis has size 2; the problem wants 1"}));

INSTANTIATE_TEST_SUITE_P(
    Strides, FaultyDenseArguments,
    ::testing::Values(
        ArgumentsFault{"q's last axis", [](auto& a) { a.q.stride[3] = 2; },
                       "q's last axis has stride 2; it must be contiguous"},
        ArgumentsFault{"v's last axis", [](auto& a) { a.v.stride[3] = 0; },
                       "v's last axis has stride 0; it must be contiguous"},
        ArgumentsFault{"bias's last axis", [](auto& a) { a.bias.stride[3] = 2; },
                       "bias's last axis has stride 2; it must be contiguous"},
        ArgumentsFault{"alibi's axis", [](auto& a) { a.alibi.stride[0] = 2; },
                       "alibi's head axis has stride 2; it must be contiguous"},
        ArgumentsFault{"negative k", [](auto& a) { a.k.stride[1] = -16; },
                       "k has a stride of -16; strides must be 0 or more"},
        ArgumentsFault{"most negative q", [](auto& a) { a.q.stride[0] = least; },
                       "q has a stride of -9223372036854775808"},
        ArgumentsFault{"negative mask", [](auto& a) { a.mask.stride[0] = -1; },
                       "mask has a stride of -1"},
        ArgumentsFault{"negative lse", [](auto& a) { a.lse.stride[2] = -1; },
                       "lse has a stride of -1"},
        ArgumentsFault{"huge v", [](auto& a) { a.v.stride[0] = huge; },
                       "v spans more bytes than 64-bit indexing reaches"},
        ArgumentsFault{"broadcast out", [](auto& a) { a.out.stride[0] = 0; },
                       "out overlaps itself: 2 × 3 × 4 × 6 elements have strides 0, 24, 6"},
        ArgumentsFault{"interleaved out", [](auto& a) { a.out.stride[2] = 5; },
                       "out overlaps itself: 2 × 3 × 4 × 6 elements have strides 72, 24, 5"},
        ArgumentsFault{"broadcast lse", [](auto& a) { a.lse.stride[1] = 0; },
                       "lse overlaps itself"}));

// Wrong sizes whose strides look wrong too, where the problem has the other size.
class FaultySizes : public FaultyArguments {};
TEST_P(FaultySizes, AreToldBeforeStrides) { expect_refused("b1 h2 q4 kv5 d8 f32 lse sinks"); }

INSTANTIATE_TEST_SUITE_P(
    Sizes, FaultySizes,
    ::testing::Values(
        ArgumentsFault{"k's batch", [](auto& a) { a.k.size[0] = 2; },
                       "k's batch axis has size 2; the problem wants 1"},
        ArgumentsFault{"k's batch and v's strides",
                       [](auto& a) { a.v.size[0] = 2, a.k.stride[1] = -1; },
                       "v's batch axis has size 2; the problem wants 1"},
        ArgumentsFault{"a short lse",
                       [](auto& a) {
                         a.lse = Tensor::dense(a.lse.data, DType::f32, {1, 2, 3, 1});
                       },
                       "lse's seq axis has size 3; the problem wants 4"},
        ArgumentsFault{"an lse without a last axis", [](auto& a) { a.lse.size[3] = 0; },
                       "lse's last axis has size 0; the problem wants 1, as of every axis that is "
                       "not used"},
        ArgumentsFault{"sinks without a last axis", [](auto& a) { a.sinks.size[3] = 0; },
                       "sinks's last axis has size 0; the problem wants 1"},
        ArgumentsFault{"an empty out", [](auto& a) { a.out.size[3] = 0; },
                       "out's dim axis has size 0; the problem wants 8"},
        ArgumentsFault{"a misaligned k of another size",
                       [](auto& a) { a.k.size[0] = 2, a.k.data = moved(a.k, 1); },
                       "k's batch axis has size 2"}));

class FaultyPackedArguments : public FaultyArguments {};
TEST_P(FaultyPackedArguments, AreRefusedByName) {
  expect_refused("b3 h2 q6 kv9 d4 f32 varlen6/9 kv_lengths");
}

INSTANTIATE_TEST_SUITE_P(
    Packed, FaultyPackedArguments,
    ::testing::Values(
        ArgumentsFault{"no kv_starts", [](auto& a) { a.kv_starts = {}; }, "kv_starts is missing"},
        ArgumentsFault{"null q_starts", [](auto& a) { a.q_starts.data = nullptr; },
                       "q_starts's data is null"},
        ArgumentsFault{"f32 q_starts", [](auto& a) { a.q_starts.dtype = DType::f32; },
                       "q_starts is f32; the problem wants i32"},
        ArgumentsFault{"odd kv_starts", [](auto& a) { a.kv_starts.data = moved(a.kv_starts, 2); },
                       "kv_starts's address is not aligned to 4 bytes"},
        ArgumentsFault{"strided q_starts", [](auto& a) { a.q_starts.stride[0] = 2; },
                       "q_starts's start axis has stride 2; it must be contiguous"},
        ArgumentsFault{"short kv_starts", [](auto& a) { a.kv_starts.size[0] = 3; },
                       "kv_starts's start axis has size 3; the problem wants 4"},
        ArgumentsFault{"empty q_starts", [](auto& a) { a.q_starts.size[0] = 0; }, "batch is -1"},
        ArgumentsFault{"most negative q_starts", [](auto& a) { a.q_starts.size[0] = least; },
                       "q_starts has an axis of size -9223372036854775808"},
        ArgumentsFault{"long kv_lengths", [](auto& a) { a.kv_lengths.size[0] = 4; },
                       "kv_lengths's batch axis has size 4; the problem wants 3"},
        ArgumentsFault{"batched q",
                       [](auto& a) {
                         a.q.size = {2, 3, 2, 4};
                       },
                       "q's batch axis has size 2; the problem wants 1"}));

class FaultyPagedArguments : public FaultyArguments {};
TEST_P(FaultyPagedArguments, AreRefusedByName) {
  expect_refused("b2 h2 q1 kv12 d4 f32 kv_lengths page4");
}

INSTANTIATE_TEST_SUITE_P(
    Paged, FaultyPagedArguments,
    ::testing::Values(
        ArgumentsFault{"null table", [](auto& a) { a.page_table.data = nullptr; },
                       "page_table's data is null"},
        ArgumentsFault{"u8 table", [](auto& a) { a.page_table.dtype = DType::u8; },
                       "page_table is u8; the problem wants i32"},
        ArgumentsFault{"one row", [](auto& a) { a.page_table.size[0] = 1; },
                       "page_table's batch axis has size 1; the problem wants 2"},
        ArgumentsFault{"huge table", [](auto& a) { a.page_table.size[1] = huge; },
                       "the kv length is 9223372036854775807; rapt's limit is 2^48"},
        ArgumentsFault{"negative table", [](auto& a) { a.page_table.size[1] = -3; },
                       "page_table has an axis of size -3"},
        ArgumentsFault{"strided table", [](auto& a) { a.page_table.stride[1] = 2; },
                       "page_table's page axis has stride 2; it must be contiguous"},
        ArgumentsFault{"backward table", [](auto& a) { a.page_table.stride[0] = -3; },
                       "page_table's batch axis has stride -3; it must be 0 or more"},
        ArgumentsFault{"endless table", [](auto& a) { a.page_table.stride[0] = huge; },
                       "elements spans more bytes than 64-bit indexing reaches"},
        ArgumentsFault{"empty pages", [](auto& a) { a.k.size[1] = 0; }, "pages hold 0 tokens"},
        ArgumentsFault{"other pages for v", [](auto& a) { a.v.size[1] = 3; },
                       "v's slot axis has size 3; the problem wants 4"},
        ArgumentsFault{"fewer pages for v", [](auto& a) { a.v.size[0] = 5; },
                       "v's page axis has size 5; the problem wants 6"},
        ArgumentsFault{"endless pool",
                       [](auto& a) { a.k.size[0] = a.v.size[0] = std::int64_t{1} << 60; },
                       "spans more bytes than 64-bit indexing reaches"},
        ArgumentsFault{"starts for pages", [](auto& a) { a.kv_starts = a.kv_lengths; },
                       "kv_starts is given but the problem has none"}));

struct OptionsFault {
  const char* name;
  Options options;
  const char* sentence;
};

void PrintTo(const OptionsFault& fault, std::ostream* stream) { *stream << fault.name; }

class FaultyOptions : public ::testing::TestWithParam<OptionsFault> {};

TEST_P(FaultyOptions, AreRefusedByName) {
  const Example example("b1 h2 q3 kv5 d4 f32");
  EXPECT_TRUE(throws(invalid, GetParam().sentence,
                     [&] { Problem::of(example.arguments, GetParam().options); }));
}

constexpr float infinity = std::numeric_limits<float>::infinity();

INSTANTIATE_TEST_SUITE_P(
    Options, FaultyOptions,
    ::testing::Values(
        OptionsFault{"scale NaN", {.scale = std::nanf("")}, "the scale is nan; it must be finite"},
        OptionsFault{"scale infinite", {.scale = infinity}, "the scale is inf; it must be finite"},
        OptionsFault{"scale below all", {.scale = -infinity}, "the scale is -inf"},
        OptionsFault{"softcap NaN", {.softcap = std::nanf("")}, "the soft cap is nan"},
        OptionsFault{"softcap infinite", {.softcap = infinity}, "the soft cap is inf"},
        OptionsFault{"softcap negative", {.softcap = -3}, "the soft cap is -3"},
        OptionsFault{"dropout NaN", {.dropout = std::nan("")}, "the dropout is nan"},
        OptionsFault{"dropout of all", {.dropout = 1}, "from 0, for none, to below 1"},
        OptionsFault{"dropout negative", {.dropout = -0.1}, "the dropout is -0.1"},
        OptionsFault{"dropout too large", {.dropout = 0.9999}, "the largest is 255/256"},
        OptionsFault{"dropout too small", {.dropout = 1e-4}, "the smallest is 1/256"},
        OptionsFault{"left", {.window = {.left = -1, .right = {}}}, "left bound is -1"},
        OptionsFault{"right", {.window = {.left = {}, .right = -2}}, "right bound is -2"},
        OptionsFault{"huge left", {.window = {.left = huge, .right = {}}}, "limit is 2^48"},
        OptionsFault{"first keys",
                     {.window = {.left = 1, .right = {}, .first_keys = -1}},
                     "first keys beside the window is -1; it must be 0 or more"},
        OptionsFault{"huge first keys",
                     {.window = {.left = 1, .right = {}, .first_keys = huge}},
                     "limit is 2^48"},
        OptionsFault{"first keys without a left bound",
                     {.window = {.left = {}, .right = 3, .first_keys = 4}},
                     "4 first keys stand beside a window without a left bound"},
        OptionsFault{"huge offset", {.offset = huge}, "limit is 2^48 either way"},
        OptionsFault{"least offset", {.offset = least}, "limit is 2^48 either way"}));

struct FieldFault {
  const char* name;
  void (*spoil)(Problem&);
  const char* sentence;
};

void PrintTo(const FieldFault& fault, std::ostream* stream) { *stream << fault.name; }

class FaultyField : public ::testing::TestWithParam<FieldFault> {};

TEST_P(FaultyField, IsRefusedByNameWhetherValidatedOrPlanned) {
  Problem problem = Problem::parse("b2 h4/2 q3 kv5 d8 f32 bias:hqk mask:bk lse");
  ASSERT_NO_THROW(problem.validate());
  GetParam().spoil(problem);
  EXPECT_TRUE(throws(invalid, GetParam().sentence, [&] { problem.validate(); }));
  EXPECT_TRUE(throws(invalid, GetParam().sentence, [&] { Plan(problem, two_threads()); }));
  EXPECT_TRUE(throws(invalid, GetParam().sentence, [&] { explain(problem, two_threads()); }));
}

INSTANTIATE_TEST_SUITE_P(
    Fields, FaultyField,
    ::testing::Values(
        FieldFault{"dtype", [](Problem& p) { p.dtype = DType::u8; }, "the element type is u8"},
        FieldFault{"dropout", [](Problem& p) { p.dropout = 0.1f; }, "multiples of 1/256"},
        FieldFault{"no dtype", [](Problem& p) { p.dtype = DType::none; }, "element type is none"},
        FieldFault{"unknown dtype", [](Problem& p) { p.dtype = DType(9); }, "type is unknown"},
        FieldFault{"page size", [](Problem& p) { p.page_size = -1; }, "the page size is -1"},
        FieldFault{"total of queries", [](Problem& p) { p.total_q = 7; },
                   "the total of queries is 7, not batch × query length"},
        FieldFault{"total of keys", [](Problem& p) { p.total_kv = 9; },
                   "the total of keys is 9, not batch × kv length"},
        FieldFault{"idle stride", [](Problem& p) { p.batch = 1, p.total_q = 3, p.total_kv = 5; },
                   "a problem leaves it out"},
        FieldFault{"stride", [](Problem& p) { p.q[1] = -1; }, "q has a stride of -1"},
        FieldFault{"alignment", [](Problem& p) { p.alignment = 32; }, "the alignment is 32"},
        FieldFault{"no alignment", [](Problem& p) { p.alignment = 0; }, "the alignment is 0"},
        FieldFault{"bias type", [](Problem& p) { p.bias.dtype = DType::bf16; }, "bias is bf16"},
        FieldFault{"mask type", [](Problem& p) { p.mask.dtype = DType::i32; }, "mask is i32"},
        FieldFault{"huge heads", [](Problem& p) { p.heads = huge; }, "number of heads is"}));

TEST(Tensor, HasAtMostFourAxesAndASizeThatFits) {
  EXPECT_TRUE(throws(invalid, "a tensor has 5 axes", [] {
    Tensor::dense(nullptr, DType::f32, {1, 1, 1, 1, 1});
  }));
  EXPECT_TRUE(throws(invalid, "overflows 64 bits", [] {
    Tensor::dense(nullptr, DType::f32, {huge, huge});
  }));
  EXPECT_TRUE(throws(invalid, "cannot exchange axes 0 and 4",
                     [] { Tensor::dense(nullptr, DType::f32, {1}).transposed(0, 4); }));
}

}  // namespace
}  // namespace rapt::test
