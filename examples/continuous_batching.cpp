// A serving loop with one plan: prompts are taken in chunks beside sequences that decode, and
// sequences come and go.
//
// The plan is made once, for the most that a step may hold: sequences, tokens, keys. A step packs
// what there is, the next chunk of a prompt or one token, and runs the same plan in the same
// workspace:
//
//   step     sequences and their new tokens            q (1, tokens of the step, head, dim)
//     1      A: 24 of its prompt   B: 8 of its prompt
//     2      A: 1                  B: 24
//     3      A: 1                  B: 5        C: 24   …
//
// Keys and values lie in pages that are given back when a sequence ends. At the end every request's
// results are compared with one causal attention over the whole of it.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <deque>
#include <rapt/rapt.hpp>
#include <vector>

namespace {

using rapt::DType;
using rapt::Tensor;

constexpr std::int64_t heads = 8, kv_heads = 2, dim = 64, page_size = 16;
constexpr std::int64_t q_row = heads * dim, kv_row = kv_heads * dim;  // elements of one token
// The most that a step holds.
constexpr std::int64_t most_sequences = 4, most_tokens = 32, most_chunk = 24, most_keys = 160;
constexpr std::int64_t pages_per_sequence = most_keys / page_size;

std::vector<float> made_up_values(std::int64_t count, double step) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(std::sin(step * static_cast<double>(i + 1)));
  return values;
}

// One request: what its tokens' queries, keys and values are, and how far it has come. In a real
// engine the decoded tokens would come out of the model one by one.
struct Request {
  Request(std::int64_t prompt_tokens, std::int64_t decoded_tokens)
      : prompt(prompt_tokens),
        tokens(prompt_tokens + decoded_tokens),
        q(made_up_values(tokens * q_row, 0.37 + 0.01 * static_cast<double>(prompt))),
        k(made_up_values(tokens * kv_row, 0.59)),
        v(made_up_values(tokens * kv_row, 0.83)),
        out(q.size()) {}

  std::int64_t next_chunk(std::int64_t room) const {
    return std::min({done < prompt ? prompt - done : 1, most_chunk, room});
  }

  std::int64_t prompt, tokens, done = 0;
  std::vector<float> q, k, v, out;
  std::vector<std::int32_t> pages;
};

// Pages of keys and values that all sequences share.
class Pool {
 public:
  Pool() {
    for (std::int32_t page = 0; page < pages; ++page) free_.push_back(page);
  }

  void append(Request& request, std::int64_t token) {
    if (token % page_size == 0) {
      request.pages.push_back(free_.front());
      free_.pop_front();
    }
    const std::int64_t slot = request.pages.back() * page_size + token % page_size;
    std::copy_n(request.k.begin() + token * kv_row, kv_row, k_.begin() + slot * kv_row);
    std::copy_n(request.v.begin() + token * kv_row, kv_row, v_.begin() + slot * kv_row);
  }
  void give_back(const Request& request) {
    free_.insert(free_.end(), request.pages.begin(), request.pages.end());
  }

  Tensor k() const {
    return Tensor::dense(k_.data(), DType::f32, {pages, page_size, kv_heads, dim});
  }
  Tensor v() const {
    return Tensor::dense(v_.data(), DType::f32, {pages, page_size, kv_heads, dim});
  }

 private:
  static constexpr std::int64_t pages = most_sequences * pages_per_sequence;
  std::vector<float> k_ = std::vector<float>(pages * page_size * kv_row), v_ = k_;
  std::deque<std::int32_t> free_;
};

// What one step packs together.
struct Step {
  std::vector<float> q, out;
  std::vector<std::int32_t> starts = {0}, lengths, table;

  void take(Request& request, std::int64_t tokens, Pool& pool) {
    for (std::int64_t token = request.done; token < request.done + tokens; ++token)
      pool.append(request, token);
    const auto first = request.q.begin() + request.done * q_row;
    q.insert(q.end(), first, first + tokens * q_row);
    starts.push_back(starts.back() + static_cast<std::int32_t>(tokens));
    lengths.push_back(static_cast<std::int32_t>(request.done + tokens));
    table.insert(table.end(), request.pages.begin(), request.pages.end());
    table.resize(lengths.size() * pages_per_sequence, -1);
  }

  rapt::Arguments arguments(const Pool& pool) {
    out.resize(q.size());
    const std::int64_t tokens = starts.back();
    const auto sequences = static_cast<std::int64_t>(lengths.size());
    return {.q = Tensor::dense(q.data(), DType::f32, {1, tokens, heads, dim}),
            .k = pool.k(),
            .v = pool.v(),
            .out = Tensor::dense(out.data(), DType::f32, {1, tokens, heads, dim}),
            .q_starts = Tensor::dense(starts.data(), DType::i32, {sequences + 1}),
            .kv_lengths = Tensor::dense(lengths.data(), DType::i32, {sequences}),
            .page_table = Tensor::dense(table.data(), DType::i32, {sequences, pages_per_sequence})};
  }
};

// How far a request's results are from one attention over the whole of it.
float error_of(const Request& request) {
  std::vector<float> whole(request.out.size());
  const std::int64_t tokens = request.tokens;
  rapt::attention({.q = Tensor::dense(request.q.data(), DType::f32, {1, tokens, heads, dim}),
                   .k = Tensor::dense(request.k.data(), DType::f32, {1, tokens, kv_heads, dim}),
                   .v = Tensor::dense(request.v.data(), DType::f32, {1, tokens, kv_heads, dim}),
                   .out = Tensor::dense(whole.data(), DType::f32, {1, tokens, heads, dim})},
                  {.causal = true});
  float largest = 0;
  for (std::size_t i = 0; i < whole.size(); ++i)
    largest = std::max(largest, std::abs(whole[i] - request.out[i]));
  return largest;
}

}  // namespace

int main() try {
  // b, q, kv and varlen are bounds: no step has more sequences, a longer chunk, more keys of a
  // sequence or more tokens in all.
  const rapt::Plan plan(
      rapt::Problem::parse("b4 h8/2 q24 kv160 d64 f32 causal varlen32 kv_lengths page16"),
      rapt::Device::cpu());
  const rapt::Buffer workspace(plan.device(), plan.workspace_bytes());

  std::deque<Request> waiting;
  for (std::int64_t i = 0; i < 9; ++i) waiting.emplace_back(5 + 17 * i % 90, 10 + 13 * i % 40);
  const std::size_t requests = waiting.size();

  Pool pool;
  std::vector<Request> active, ended;
  int steps = 0;
  while (!waiting.empty() || !active.empty()) {
    while (!waiting.empty() && active.size() < most_sequences) {
      active.push_back(std::move(waiting.front()));
      waiting.pop_front();
    }
    Step step;
    for (Request& request : active) {
      const std::int64_t tokens = request.next_chunk(most_tokens - step.starts.back());
      if (tokens > 0) step.take(request, tokens, pool);
    }
    plan.run(step.arguments(pool), {.workspace = workspace.bytes()});
    ++steps;

    // Results go back to their requests; those that have ended leave.
    for (std::size_t i = 0; i < step.lengths.size(); ++i) {
      std::copy(step.out.begin() + step.starts[i] * q_row,
                step.out.begin() + step.starts[i + 1] * q_row,
                active[i].out.begin() + active[i].done * q_row);
      active[i].done = step.lengths[i];
    }
    for (std::size_t i = active.size(); i-- > 0;) {
      if (active[i].done < active[i].tokens) continue;
      pool.give_back(active[i]);
      ended.push_back(std::move(active[i]));
      active.erase(active.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  float largest = 0;
  for (const Request& request : ended) largest = std::max(largest, error_of(request));
  std::printf("plan     %s\n", plan.problem().to_string().c_str());
  std::printf("kernel   %.*s, %zu bytes of workspace\n", static_cast<int>(plan.kernel().size()),
              plan.kernel().data(), plan.workspace_bytes());
  std::printf("served   %zu requests in %d steps with that one plan\n", requests, steps);
  std::printf("differs  by at most %.1e from attention over the whole sequences\n",
              static_cast<double>(largest));
  return largest < 1e-5f ? 0 : 1;
} catch (const rapt::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
