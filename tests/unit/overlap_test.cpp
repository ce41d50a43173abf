// Tensors that share memory, and who refuses them.
#include "src/core/overlap.hpp"

#include <algorithm>
#include <set>

#include "src/verify/random.hpp"
#include "tests/unit/support.hpp"

namespace rapt::test {
namespace {

constexpr auto invalid = ErrorCode::invalid_argument;

std::set<std::uintptr_t> all_bytes_of(const Tensor& tensor) {
  std::set<std::uintptr_t> bytes;
  for_each_position(tensor.size, [&](const Shape& at) {
    const auto first = reinterpret_cast<std::uintptr_t>(tensor.data) +
                       std::uintptr_t(index_of(tensor, at) * size_in_bytes(tensor.dtype));
    for (int i = 0; i < size_in_bytes(tensor.dtype); ++i) bytes.insert(first + std::uintptr_t(i));
  });
  return bytes;
}

bool meet(const std::set<std::uintptr_t>& a, const std::set<std::uintptr_t>& b) {
  return std::ranges::any_of(a, [&](std::uintptr_t byte) { return b.contains(byte); });
}

// Nested axes, as views have, or any strides at all.
Tensor random_tensor(verify::Random& random) {
  Tensor tensor{nullptr, random.one_of({DType::f32, DType::f16, DType::u8}), {}, {}};
  const std::int64_t element = size_in_bytes(tensor.dtype);
  tensor.data = reinterpret_cast<void*>(std::uintptr_t(4096 + random.between(0, 60) * element));
  const bool nested = random.chance(0.7);
  std::int64_t step = 1;
  for (std::size_t axis = 4; axis-- > 0;) {
    tensor.size[axis] = random.chance(0.02) ? 0 : random.between(1, 4);
    tensor.stride[axis] = nested ? step : axis == 3 ? 1 : random.between(0, 20);
    step = step * tensor.size[axis] + (random.chance(0.7) ? random.between(1, 20) : 0);
  }
  return tensor;
}

std::string text_of(const Tensor& t) {
  std::string result = std::to_string(reinterpret_cast<std::uintptr_t>(t.data)) + ":";
  for (std::size_t axis = 0; axis < 4; ++axis)
    result += " " + std::to_string(t.size[axis]) + "@" + std::to_string(t.stride[axis]);
  return result + " " + std::string(name(t.dtype));
}

TEST(Overlap, IsFoundWhereSomeByteBelongsToBoth) {
  verify::Random random(1);
  int sharing = 0, between = 0;
  for (int i = 0; i < 10000; ++i) {
    const Tensor a = random_tensor(random), b = random_tensor(random);
    const auto of_a = all_bytes_of(a), of_b = all_bytes_of(b);
    const bool wanted = meet(of_a, of_b);
    ASSERT_EQ(share_memory(a, b), wanted) << text_of(a) << " and " << text_of(b);
    sharing += wanted;
    between += !wanted && !of_a.empty() && !of_b.empty() && *of_a.begin() < *of_b.rbegin() &&
               *of_b.begin() < *of_a.rbegin();
  }
  EXPECT_GT(sharing, 1000);
  EXPECT_GT(between, 1000) << "one between the rows of the other";
}

TEST(Overlap, IsTakenForGrantedWhereTheSearchWouldNotEnd) {
  constexpr std::int64_t many = std::int64_t{1} << 20;
  char memory[8];
  const Tensor a{memory, DType::u8, {many, many, many, 1}, {6, 10, 14, 1}};
  const Tensor b{memory + 1, DType::u8, {many, many, many, 1}, {30, 42, 70, 1}};
  EXPECT_TRUE(share_memory(a, b));
}

TEST(Overlap, OfAResultWithAnotherTensorIsRefusedByARun) {
  const Example example("b2 h4/2 q3 kv3 d8/4 f32 bias:hqk alibi sinks kv_lengths lse");
  const Plan plan(example.problem, two_threads());
  const Buffer workspace(two_threads(), plan.workspace_bytes());
  const auto run = [&](auto change) {
    Arguments arguments = example.arguments;
    change(arguments);
    plan.run(arguments, {.workspace = workspace.bytes()});
  };
  const auto later = [](const Tensor& tensor, std::int64_t elements) -> void* {
    return static_cast<float*>(tensor.data) + elements;
  };
  const auto refused = [&](std::string_view sentence, auto change) {
    EXPECT_TRUE(throws(invalid, sentence, [&] { run(change); }));
  };
  EXPECT_NO_THROW(run([](Arguments&) {}));
  // Each moves a smaller tensor into a larger one, so that it meets no third.
  refused("out shares memory with q; it needs memory of its own",
          [](Arguments& a) { a.out.data = a.q.data; });
  refused("out shares memory with q", [&](Arguments& a) { a.out.data = later(a.q, 8); });
  refused("out shares memory with v", [&](Arguments& a) { a.v.data = later(a.out, 4); });
  refused("out shares memory with bias", [&](Arguments& a) { a.bias.data = later(a.out, 5); });
  refused("out shares memory with lse", [&](Arguments& a) { a.lse.data = later(a.out, 70); });
  refused("out shares memory with kv_lengths",
          [](Arguments& a) { a.kv_lengths.data = a.out.data; });
  refused("lse shares memory with k", [&](Arguments& a) { a.lse.data = later(a.k, 8); });
  refused("lse shares memory with sinks", [](Arguments& a) { a.sinks.data = a.lse.data; });
}

// q and out as the halves of each row of one buffer.
TEST(Overlap, IsNotSeenBetweenViewsOfOneBuffer) {
  const Problem problem = Problem::parse("b2 h4 s3 d4 f32 q@96,32,8 out@96,32,8");
  const Example example(problem);
  std::vector<float> buffer(2 * 3 * 4 * 8);
  Arguments together = example.arguments;
  together.q.data = buffer.data();
  together.out.data = buffer.data() + 4;
  fill(together.q, values(example.arguments.q));
  example.run("cpu.naive");
  const Plan plan(problem, two_threads(), {.kernel = "cpu.naive"});
  const Buffer workspace(two_threads(), plan.workspace_bytes());
  plan.run(together, {.workspace = workspace.bytes()});
  EXPECT_EQ(values(together.out), example.out());
}

}  // namespace
}  // namespace rapt::test
