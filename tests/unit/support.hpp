// What the tests share: arguments made from a problem, with memory of their own, and a check that a
// call fails with a given sentence.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "rapt/rapt.hpp"
#include "src/core/call.hpp"
#include "src/core/layout.hpp"
#include "src/core/tensors.hpp"
#include "src/cpu/engine.hpp"

namespace rapt::test {

inline const Device& two_threads() {
  static const Device device = Device::cpu(2);
  return device;
}

// Backward's oracle allocates, and lends no thread any work.
inline bool is_for_comparison_only(std::string_view kernel) {
  return kernel == "cpu.oracle_backward";
}

// The names of the CPU kernels that take a problem.
inline std::vector<std::string_view> kernels_for(const Problem& problem) {
  std::vector<std::string_view> result;
  for (const Candidate& candidate : explain(problem, two_threads()).candidates) {
    if (candidate.refusal.empty() && !is_for_comparison_only(candidate.kernel))
      result.push_back(candidate.kernel);
  }
  return result;
}

// Shows that a test's problems left no CPU kernel out that this processor can run, of one operation
// or of all.
inline void expect_every_kernel_in(const std::set<std::string_view>& ran,
                                   std::optional<Operation> operation = {}) {
  const bool has_tiles = amx_engine() && two_threads().has("amx_bf16");
  const bool has_dots = bf16_engine() && two_threads().has("avx512bf16");
  for (const KernelInfo& kernel : kernels()) {
    if (operation && kernel.operation != *operation) continue;
    if (kernel.backend != Backend::cpu || is_for_comparison_only(kernel.name)) continue;
    if (kernel.name.starts_with("cpu.flash_amx") && !has_tiles) continue;
    if (kernel.name.starts_with("cpu.flash_bf16") && !has_dots) continue;
    EXPECT_TRUE(ran.contains(kernel.name)) << kernel.name << " took none of the problems";
  }
}

// EXPECT_TRUE(throws(code, "part of the sentence", [&] { ... }))
template <class Function>
::testing::AssertionResult throws(ErrorCode code, std::string_view part, Function&& function) {
  try {
    function();
  } catch (const Error& error) {
    const std::string sentence = error.what();
    if (error.code() != code) {
      return ::testing::AssertionFailure() << "expected code " << static_cast<int>(code) << ", got "
                                           << static_cast<int>(error.code()) << ": " << sentence;
    }
    if (sentence.find(part) == std::string::npos) {
      return ::testing::AssertionFailure() << "expected '" << part << "', got: " << sentence;
    }
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << "nothing was thrown; expected '" << part << "'";
}

inline std::int64_t index_of(const Tensor& t, const Shape& at) {
  return at[0] * t.stride[0] + at[1] * t.stride[1] + at[2] * t.stride[2] + at[3] * t.stride[3];
}

inline float get(const Tensor& tensor, const Shape& at) {
  return with_element_type(tensor.dtype, [&](auto type) {
    return to_float(static_cast<const decltype(type)*>(tensor.data)[index_of(tensor, at)]);
  });
}

inline void set(const Tensor& tensor, const Shape& at, float value) {
  with_element_type(tensor.dtype, [&](auto type) {
    static_cast<decltype(type)*>(tensor.data)[index_of(tensor, at)] =
        from_float<decltype(type)>(value);
  });
}

// Calls function(position) for every position of a shape, the last axis fastest.
template <class Function>
void for_each_position(const Shape& shape, Function&& function) {
  Shape at = {};
  for (at[0] = 0; at[0] < shape[0]; ++at[0])
    for (at[1] = 0; at[1] < shape[1]; ++at[1])
      for (at[2] = 0; at[2] < shape[2]; ++at[2])
        for (at[3] = 0; at[3] < shape[3]; ++at[3]) function(at);
}

inline std::vector<float> values(const Tensor& tensor) {
  std::vector<float> result;
  for_each_position(tensor.size, [&](const Shape& at) { result.push_back(get(tensor, at)); });
  return result;
}

inline void fill(const Tensor& tensor, const std::vector<float>& source) {
  std::size_t next = 0;
  for_each_position(tensor.size, [&](const Shape& at) { set(tensor, at, source.at(next++)); });
}

// Bit patterns, so that NaN equals itself and −0 differs from 0.
inline std::vector<std::uint32_t> bits(const std::vector<float>& floats) {
  std::vector<std::uint32_t> result(floats.size());
  if (!floats.empty()) std::memcpy(result.data(), floats.data(), floats.size() * sizeof(float));
  return result;
}

// Arguments that a problem describes, with random values. Sequences fill their room evenly, lengths
// are full, and pages lie in reverse order.
class Example {
 public:
  explicit Example(const Problem& described, unsigned seed = 1)
      : problem(described), random_(seed) {
    const Problem& p = problem;
    pages = p.paged() ? p.batch * pages_per_sequence() : many_pages;
    for (const TensorRule& rule : tensor_rules()) {
      if (!rule.wanted(p) || rule.is_index_data || rule.name == "seed") continue;
      const Shape shape = shape_of(p, rule, pages);
      const Problem::Strides* strides = strides_in(p, rule);
      const DType dtype = rule.dtype(p);
      arguments.*rule.member = dtype == DType::u8
                                   ? mask(shape, *strides)
                                   : elements(dtype, shape, strides ? *strides : contiguous(shape));
    }
    if (p.varlen) arguments.q_starts = integers(starts(p.total_q));
    if (p.varlen && !p.paged()) arguments.kv_starts = integers(starts(p.total_kv));
    if (p.lengths) arguments.kv_lengths = integers(full_lengths());
    if (p.paged()) make_page_table();
    if (p.dropout > 0) arguments.seed = dropout_seed();
  }
  explicit Example(std::string_view text, unsigned seed = 1)
      : Example(Problem::parse(text), seed) {}

  void run(std::string_view kernel = "cpu.naive", Executor* executor = nullptr) const {
    const Plan plan(problem, two_threads(), {.kernel = kernel, .executor = executor});
    const Buffer workspace(two_threads(), plan.workspace_bytes());
    plan.run(arguments, {.workspace = workspace.bytes()});
  }
  // Everything that the operation writes, one tensor after another.
  std::vector<float> results() const {
    std::vector<float> all;
    for (const TensorRule& rule : tensor_rules()) {
      if (!rule.wanted(problem) || !rule.written(problem.operation)) continue;
      const std::vector<float> one = values(arguments.*rule.member);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }
  void poison_results() const {
    for (const TensorRule& rule : tensor_rules()) {
      if (!rule.wanted(problem) || !rule.written(problem.operation)) continue;
      const Tensor& tensor = arguments.*rule.member;
      fill(tensor, std::vector<float>(values(tensor).size(), 99));
    }
  }
  std::vector<float> out() const { return values(arguments.out); }
  std::vector<float> lse() const { return values(arguments.lse); }

  // Index data of the test's own. The vector is copied.
  Tensor integers(const std::vector<std::int32_t>& source) {
    const Tensor tensor = memory(DType::i32, {std::int64_t(source.size()), 1, 1, 1}, {1, 0, 0});
    if (!source.empty())
      std::memcpy(tensor.data, source.data(), source.size() * sizeof(std::int32_t));
    return tensor;
  }

  Problem problem;
  Arguments arguments;
  std::int64_t pages = 0;

 private:
  std::int64_t pages_per_sequence() const {
    return (problem.kv_len + problem.page_size - 1) / problem.page_size;
  }

  Tensor memory(DType dtype, const Shape& shape, const Problem::Strides& strides) {
    const std::int64_t bytes =
        extent(shape, strides, size_in_bytes(dtype)).value() * size_in_bytes(dtype);
    buffers_.emplace_back(two_threads(), static_cast<std::size_t>(bytes));
    std::ranges::fill(buffers_.back().bytes(), std::byte{0xff});  // NaN between the rows
    return {buffers_.back().data(), dtype, shape, {strides[0], strides[1], strides[2], 1}};
  }

  Tensor elements(DType dtype, const Shape& shape, const Problem::Strides& strides) {
    const Tensor tensor = memory(dtype, shape, strides);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for_each_position(shape, [&](const Shape& at) { set(tensor, at, uniform(random_)); });
    return tensor;
  }

  static Problem::Strides contiguous(const Shape& shape) {
    const Tensor dense = Tensor::dense(nullptr, DType::f32, shape);
    return {dense.stride[0], dense.stride[1], dense.stride[2]};
  }

  Tensor mask(const Shape& shape, const Problem::Strides& strides) {
    const Tensor tensor = memory(DType::u8, shape, strides);
    for_each_position(shape, [&](const Shape& at) {
      static_cast<std::uint8_t*>(tensor.data)[index_of(tensor, at)] = random_() % 4 != 0;
    });
    return tensor;
  }

  Tensor dropout_seed() {
    const Shape shape = {2, 1, 1, 1};
    const Tensor tensor = memory(DType::i64, shape, contiguous(shape));
    auto* numbers = static_cast<std::int64_t*>(tensor.data);
    numbers[0] = random_();
    numbers[1] = random_();
    return tensor;
  }

  std::vector<std::int32_t> starts(std::int64_t total) const {
    std::vector<std::int32_t> result;
    for (std::int64_t i = 0; i <= problem.batch; ++i)
      result.push_back(std::int32_t(total * i / std::max<std::int64_t>(problem.batch, 1)));
    return result;
  }

  std::vector<std::int32_t> full_lengths() const {
    std::vector<std::int32_t> result(std::size_t(problem.batch), std::int32_t(problem.kv_len));
    if (!problem.varlen || problem.paged()) return result;
    const std::vector<std::int32_t> begin = starts(problem.total_kv);
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = begin[i + 1] - begin[i];
    return result;
  }

  void make_page_table() {
    std::vector<std::int32_t> table;
    for (std::int64_t page = pages; page-- > 0;) table.push_back(std::int32_t(page));
    arguments.page_table = integers(table);
    arguments.page_table.size = {problem.batch, pages_per_sequence(), 1, 1};
    arguments.page_table.stride = {pages_per_sequence(), 1, 0, 0};
  }

  std::mt19937 random_;
  std::vector<Buffer> buffers_;
};

}  // namespace rapt::test
