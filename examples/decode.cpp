// A decode loop over a growing paged KV cache: one plan, run for every token.
//
// Each step appends one key and one value per sequence to the cache, taking a fresh page where the
// last one is full, and attends from one query to all keys so far. Lengths and page table are data,
// so the plan that was made before the first token serves for the last. At the end, every step's
// result is compared with one causal attention over the whole, contiguous sequences.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <rapt/rapt.hpp>
#include <vector>

namespace {

using rapt::DType;
using rapt::Tensor;

constexpr std::int64_t batch = 2, heads = 8, kv_heads = 2, dim = 64;
constexpr std::int64_t tokens = 100, page_size = 16;
constexpr std::int64_t pages_per_sequence = (tokens + page_size - 1) / page_size;
constexpr std::int64_t q_row = heads * dim, kv_row = kv_heads * dim;  // elements of one token

std::vector<float> made_up_values(std::int64_t count, double step) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(std::sin(step * static_cast<double>(i + 1)));
  return values;
}

// Pages of keys and values shared by all sequences, and who has which.
class Cache {
 public:
  void append(std::int64_t sequence, const float* key, const float* value) {
    std::int32_t& length = lengths_[static_cast<std::size_t>(sequence)];
    const std::int64_t entry = sequence * pages_per_sequence + length / page_size;
    if (length % page_size == 0) table_[static_cast<std::size_t>(entry)] = next_page_++;
    const std::int64_t slot =
        table_[static_cast<std::size_t>(entry)] * page_size + length % page_size;
    std::copy_n(key, kv_row, k_.begin() + slot * kv_row);
    std::copy_n(value, kv_row, v_.begin() + slot * kv_row);
    ++length;
  }

  void put_into(rapt::Arguments& arguments) const {
    const std::int64_t pages = batch * pages_per_sequence;
    arguments.k = Tensor::dense(k_.data(), DType::f32, {pages, page_size, kv_heads, dim});
    arguments.v = Tensor::dense(v_.data(), DType::f32, {pages, page_size, kv_heads, dim});
    arguments.kv_lengths = Tensor::dense(lengths_.data(), DType::i32, {batch});
    arguments.page_table = Tensor::dense(table_.data(), DType::i32, {batch, pages_per_sequence});
  }

 private:
  std::vector<float> k_ = std::vector<float>(batch * pages_per_sequence * page_size * kv_row);
  std::vector<float> v_ = k_;
  std::vector<std::int32_t> lengths_ = std::vector<std::int32_t>(batch);
  std::vector<std::int32_t> table_ = std::vector<std::int32_t>(batch * pages_per_sequence, -1);
  std::int32_t next_page_ = 0;
};

}  // namespace

int main() try {
  const std::vector<float> q = made_up_values(batch * tokens * q_row, 0.37);
  const std::vector<float> k = made_up_values(batch * tokens * kv_row, 0.59);
  const std::vector<float> v = made_up_values(batch * tokens * kv_row, 0.83);
  std::vector<float> decoded(q.size()), whole(q.size());

  // The queries and results of one step are slices of the whole: one token of every sequence.
  const auto step_of = [](const std::vector<float>& all, std::int64_t token) {
    Tensor slice = Tensor::dense(all.data(), DType::f32, {batch, tokens, heads, dim});
    slice.data = static_cast<float*>(slice.data) + token * q_row;
    slice.size[1] = 1;
    return slice;
  };

  Cache cache;
  rapt::Arguments step;
  cache.put_into(step);
  step.q = step_of(q, 0);
  step.out = step_of(decoded, 0);
  const rapt::Plan plan(rapt::Problem::of(step, {.causal = true}), rapt::Device::cpu());
  const rapt::Buffer workspace(plan.device(), plan.workspace_bytes());

  for (std::int64_t token = 0; token < tokens; ++token) {
    for (std::int64_t sequence = 0; sequence < batch; ++sequence) {
      const std::int64_t row = (sequence * tokens + token) * kv_row;
      cache.append(sequence, k.data() + row, v.data() + row);
    }
    step.q = step_of(q, token);
    step.out = step_of(decoded, token);
    plan.run(step, {.workspace = workspace.bytes()});
  }

  rapt::attention({.q = Tensor::dense(q.data(), DType::f32, {batch, tokens, heads, dim}),
                   .k = Tensor::dense(k.data(), DType::f32, {batch, tokens, kv_heads, dim}),
                   .v = Tensor::dense(v.data(), DType::f32, {batch, tokens, kv_heads, dim}),
                   .out = Tensor::dense(whole.data(), DType::f32, {batch, tokens, heads, dim})},
                  {.causal = true});
  float largest = 0;
  for (std::size_t i = 0; i < whole.size(); ++i)
    largest = std::max(largest, std::abs(whole[i] - decoded[i]));

  std::printf("plan     %s\n", plan.problem().to_string().c_str());
  std::printf("kernel   %.*s, %zu bytes of workspace\n", static_cast<int>(plan.kernel().size()),
              plan.kernel().data(), plan.workspace_bytes());
  std::printf("decoded  %lld tokens of %lld sequences with that one plan\n",
              static_cast<long long>(tokens), static_cast<long long>(batch));
  std::printf("differs  by at most %.1e from attention over the whole sequences\n",
              static_cast<double>(largest));
  return largest < 1e-5f ? 0 : 1;
} catch (const rapt::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
