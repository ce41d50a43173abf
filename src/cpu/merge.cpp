#include "src/cpu/merge.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/core/call.hpp"
#include "src/core/parallel.hpp"
#include "src/cpu/thread_pool.hpp"

namespace rapt {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float minus_infinity = -infinity;

struct Position {
  std::int64_t batch, seq, head;
};

float& lse_at(const Partial& partial, const Position& at) {
  const auto& stride = partial.lse.stride;
  return static_cast<float*>(
      partial.lse.data)[at.batch * stride[0] + at.head * stride[1] + at.seq * stride[2]];
}

// Calls function with a pointer to the elements of one row of out.
template <class Function>
void with_row(const Partial& partial, const Position& at, Function&& function) {
  const auto& stride = partial.out.stride;
  const std::int64_t offset = at.batch * stride[0] + at.seq * stride[1] + at.head * stride[2];
  with_element_type(partial.out.dtype, [&](auto type) {
    function(static_cast<decltype(type)*>(partial.out.data) + offset);
  });
}

void merge_row(const Partial& first, const Partial& second, const Partial& result,
               const Position& at) {
  const float first_lse = lse_at(first, at), second_lse = lse_at(second, at);
  // An empty side weighs nothing, and its out is not looked at. A NaN of either makes the sum one.
  // One of +inf weighs 1 in it, which then tells whether the other is NaN; out is NaN beside it.
  const bool has_first = first_lse != minus_infinity, has_second = second_lse != minus_infinity;
  const double largest = std::max(first_lse, second_lse);
  const auto weight = [&](float lse) { return lse == largest ? 1 : std::exp(lse - largest); };
  const double first_weight = has_first ? weight(first_lse) : 0;
  const double second_weight = has_second ? weight(second_lse) : 0;
  const double sum = first_weight + second_weight;
  const double factor = largest == infinity ? std::nan("") : sum == 0 ? 0 : 1 / sum;
  const double first_share = first_weight * factor, second_share = second_weight * factor;
  with_row(first, at, [&](const auto* first_row) {
    with_row(second, at, [&](const auto* second_row) {
      with_row(result, at, [&](auto* row) {
        for (std::int64_t d = 0; d < result.out.size[3]; ++d) {
          double value = 0;
          if (has_first) value += first_share * to_float(first_row[d]);
          if (has_second) value += second_share * to_float(second_row[d]);
          row[d] = from_float<std::remove_pointer_t<decltype(row)>>(static_cast<float>(value));
        }
      });
    });
  });
  lse_at(result, at) = sum == 0 ? minus_infinity : static_cast<float>(largest + std::log(sum));
}

}  // namespace

void merge_on_cpu(const Device& device, const Partial& first, const Partial& second,
                  const Partial& result, const MergeOptions& options) {
  Executor& executor = options.executor ? *options.executor : shared_thread_pool(device.threads);
  const std::int64_t batch = result.out.size[0], seq = result.out.size[1];
  const std::int64_t heads = result.out.size[2];
  parallel_for(executor, batch * seq, [&](std::int64_t row) {
    for (std::int64_t head = 0; head < heads; ++head)
      merge_row(first, second, result, {row / seq, row % seq, head});
  });
}

}  // namespace rapt
