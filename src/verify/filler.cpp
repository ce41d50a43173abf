#include "src/verify/filler.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <string_view>

#include "src/core/call.hpp"
#include "src/core/layout.hpp"
#include "src/oracle/oracle.hpp"
#include "src/verify/elements.hpp"

namespace rapt::verify {

using semantics::Index;

namespace {

// Normal numbers, looked up where making them anew would take longer than what is to be timed.
const std::vector<float>& normal_table() {
  static const std::vector<float> table = [] {
    Random random(1);
    std::vector<float> numbers(1 << 16);
    for (float& number : numbers) number = static_cast<float>(random.normal());
    return numbers;
  }();
  return table;
}

}  // namespace

Filler::Filler(Data& data, std::uint64_t seed, Fill fill)
    : data_(data), problem_(data.problem_), random_(seed ^ 0x72617074u), fill_(fill) {
  if (fill == Fill::typical) return;
  // The last ones give logits of tens to hundreds, where one key takes nearly all the weight.
  spread_.query = random_.one_of({1.0, 1.0, 1.0, 0.1, 8.0, 30.0});
  spread_.key = random_.one_of({1.0, 1.0, 1.0, 0.1, 4.0});
  spread_.value = random_.one_of({1.0, 1.0, 1.0, 0.25, 100.0});
  spread_.ties = random_.chance(0.1);
  spread_.blocked_bias = random_.chance(0.4);
  // And where the others are ordinary, numbers of any size that f16 holds, with scores beyond 1e8.
  if (random_.chance(0.08)) spread_.query = random_.one_of({1e-4, 1e3, 1e4});
  if (random_.chance(0.05)) spread_.key = random_.one_of({1e-4, 1e3, 1e4});
  // In 16 bits without those whose scores cuda.flash_wgmma does not promise: docs/numerics.md.
  if (problem_.dtype != DType::f32 && spread_.query * spread_.key > 1e5) spread_.key = 1;
  if (random_.chance(0.05)) spread_.value = random_.one_of({1e-3, 1e4});
  if (random_.chance(0.3)) spread_.bias = random_.one_of({0.01, 30.0, 1e4});
  if (random_.chance(0.3)) spread_.slope = random_.one_of({-1.0, 7.3, 1e3});
  if (random_.chance(0.2)) spread_.sink = random_.one_of({0.01, 50.0, 1e4});
  spread_.strange = random_.chance(0.06);
  if (problem_.operation == Operation::forward) return;
  spread_.gradient = random_.one_of({1.0, 1.0, 1.0, 1e-3, 30.0});
  // Weights come from the given lse, and scores beyond these leave nothing of them to compare.
  spread_.query = std::min(spread_.query, 30.0);
  spread_.key = std::min(spread_.key, 4.0);
  spread_.bias = std::min(spread_.bias, 30.0);
  spread_.slope = std::min(spread_.slope, 7.3);
  spread_.sink = std::min(spread_.sink, 50.0);
}

void Filler::fill() {
  if (problem_.dropout > 0) fill_seed();
  fill_lengths();
  if (problem_.paged()) fill_pages();
  fill_heads();
  const semantics::Call call = make_call(problem_, data_.on_host());
  fill_queries(call);
  fill_keys(call);
  fill_pairs(call);
  if (spread_.strange) put_strange(call);
  if (problem_.operation == Operation::backward) fill_gradients(call);
}

float Filler::draw(double spread) {
  if (spread_.ties) return static_cast<float>(random_.between(-1, 1));
  return static_cast<float>(spread * random_.normal());
}

// Lengths up to `bound` whose sum is at most `total`; as near to it as can be if `exact`.
std::vector<std::int64_t> Filler::draw_lengths(std::int64_t bound, std::int64_t total, bool exact) {
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(problem_.batch));
  std::int64_t left = total;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const auto rest = static_cast<std::int64_t>(lengths.size() - i);
    std::int64_t length = exact ? (left + rest - 1) / rest : random_.between(0, bound);
    if (!exact && random_.chance(0.1)) length = 0;
    if (!exact && random_.chance(0.2)) length = bound;
    lengths[i] = std::min({length, bound, left});
    left -= lengths[i];
  }
  return lengths;
}

void Filler::fill_lengths() {
  const bool exact = fill_ == Fill::typical;
  const auto starts = [&](const char* name, const std::vector<std::int64_t>& lengths,
                          std::int64_t total) {
    // Rows before the first sequence and after the last belong to nobody.
    const std::int64_t used = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
    std::int64_t at = exact ? 0 : random_.between(0, total - used);
    auto* start = image<std::int32_t>(name);
    for (const std::int64_t length : lengths) {
      *start++ = static_cast<std::int32_t>(at);
      at += length;
    }
    *start = static_cast<std::int32_t>(at);
  };
  std::vector<std::int64_t> room(static_cast<std::size_t>(problem_.batch), problem_.kv_len);
  if (problem_.varlen) {
    starts("q_starts", draw_lengths(problem_.q_len, problem_.total_q, exact), problem_.total_q);
  }
  if (problem_.varlen && !problem_.paged()) {
    room = draw_lengths(problem_.kv_len, problem_.total_kv, exact);
    starts("kv_starts", room, problem_.total_kv);
  }
  if (problem_.lengths) {
    const auto lengths = draw_lengths(problem_.kv_len, problem_.total_kv, exact);
    auto* target = image<std::int32_t>("kv_lengths");
    for (std::size_t i = 0; i < room.size(); ++i) {
      target[i] = static_cast<std::int32_t>(std::min(lengths[i], room[i]));
    }
  }
}

// Pages in random order; entries past a sequence's keys stay −1. Hostile sequences may share the
// pages they begin with, as prompts with a common prefix do.
void Filler::fill_pages() {
  const Data::Owned& table = data_.tensors_.at("page_table");
  std::vector<std::int32_t> pages(static_cast<std::size_t>(data_.tensors_.at("k").tensor.size[0]));
  std::iota(pages.begin(), pages.end(), 0);
  for (std::size_t i = pages.size(); i > 1; --i) {
    std::swap(pages[i - 1], pages[static_cast<std::size_t>(random_.below(static_cast<Index>(i)))]);
  }
  std::size_t next = 0;
  for (std::int64_t i = 0; i < problem_.batch; ++i) {
    const std::int64_t length =
        problem_.lengths ? image<std::int32_t>("kv_lengths")[i] : problem_.kv_len;
    auto* row = image<std::int32_t>("page_table") + i * table.tensor.stride[0];
    const auto* previous = row - table.tensor.stride[0];
    bool shared = i > 0 && fill_ == Fill::hostile && random_.chance(0.4);
    for (std::int64_t j = 0; j * problem_.page_size < length; ++j) {
      shared = shared && previous[j] >= 0 && random_.chance(0.8);
      row[j] = shared ? previous[j] : pages[next++];
    }
  }
}

void Filler::fill_heads() {
  for (Index head = 0; head < problem_.heads; ++head) {
    const Index sequences = problem_.alibi_per_sequence ? problem_.batch : 1;
    for (Index b = 0; problem_.alibi && b < sequences; ++b) {
      const double slope =
          spread_.slope * std::exp2(-8.0 * double(head + 1) / double(problem_.heads));
      image<float>("alibi")[b * problem_.heads + head] = static_cast<float>(slope / double(b + 1));
    }
    if (problem_.sinks) {
      const bool absent = fill_ == Fill::hostile && random_.chance(0.1);
      image<float>("sinks")[head] = absent ? -std::numeric_limits<float>::infinity()
                                           : static_cast<float>(spread_.sink * random_.normal());
    }
  }
}

void Filler::fill_seed() {
  auto* seed = image<std::int64_t>("seed");
  for (int i = 0; i < 2; ++i) seed[i] = static_cast<std::int64_t>(random_.next());
}

void Filler::fill_row(const char* name, Index offset, Index count, double spread) {
  std::vector<float> row(static_cast<std::size_t>(count));
  if (fill_ == Fill::typical) {
    const std::vector<float>& table = normal_table();
    const std::uint64_t start = random_.next();
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = table[(start + i) % table.size()];
  } else {
    for (float& value : row) value = draw(spread);
  }
  put(name, offset, row);
}

void Filler::put(const char* name, Index offset, std::span<const float> numbers) {
  const DType dtype = data_.tensors_.at(name).tensor.dtype;
  to_elements(dtype, numbers, image<std::byte>(name) + offset * size_in_bytes(dtype));
}

void Filler::fill_queries(const semantics::Call& call) {
  for (Index b = 0; b < call.batch; ++b) {
    const semantics::Sequence sequence = semantics::sequence(call, b);
    for (Index i = 0; i < sequence.q_len; ++i) {
      const semantics::Place place = semantics::query_place(call, sequence, i);
      for (Index head = 0; head < call.heads; ++head) {
        fill_row("q", semantics::row_offset(call.q_stride, place, head), call.qk_dim,
                 spread_.query);
      }
    }
  }
}

// Keys outside every query's window are as unreachable as padding.
void Filler::fill_keys(const semantics::Call& call) {
  for (Index b = 0; b < call.batch; ++b) {
    const semantics::Sequence sequence = semantics::sequence(call, b);
    if (sequence.q_len == 0) continue;
    const Index first = sequence.offset, last = sequence.offset + sequence.q_len - 1;
    const semantics::KeyRanges keys =
        semantics::visible_to_some(call.window, first, last, sequence.kv_len);
    for (Index key = 0; key < sequence.kv_len; ++key) {
      if (!semantics::holds(keys, key)) continue;
      const semantics::Place place = semantics::key_place(call, sequence, key);
      for (Index head = 0; head < call.kv_heads; ++head) {
        fill_row("k", semantics::row_offset(call.k_stride, place, head), call.qk_dim, spread_.key);
        fill_row("v", semantics::row_offset(call.v_stride, place, head), call.v_dim, spread_.value);
      }
    }
  }
}

// dout and dlse, and the out and lse that forward would have given: rounded to their types, lse now
// and then of more keys than there are. Where the oracle would take too long, likely ones.
void Filler::fill_gradients(const semantics::Call& call) {
  const semantics::Gradients gradients = make_gradients(problem_, data_.on_host());
  const double work = double(problem_.total_q) * double(problem_.heads) * double(problem_.kv_len) *
                      double(problem_.qk_dim + problem_.v_dim);
  const bool as_forward = fill_ == Fill::hostile && work < 3e8;
  const bool more_keys = fill_ == Fill::hostile && random_.chance(0.2);
  std::vector<double> exact(static_cast<std::size_t>(call.v_dim));
  std::vector<double> scores(static_cast<std::size_t>(call.kv_len));
  std::vector<float> out(exact.size());
  for (Index b = 0; b < call.batch; ++b) {
    const semantics::Sequence sequence = semantics::sequence(call, b);
    for (Index i = 0; i < sequence.q_len; ++i) {
      const semantics::Place place = semantics::query_place(call, sequence, i);
      for (Index head = 0; head < call.heads; ++head) {
        const auto at = [&](const Index(&stride)[3]) {
          return semantics::row_offset(stride, place, head);
        };
        fill_row("dout", at(gradients.dout_stride), call.v_dim, spread_.gradient);
        double lse = 0;
        if (as_forward) {
          lse = oracle_row(call, problem_.dtype, {sequence, head, i}, exact, scores);
          if (more_keys && std::isfinite(lse)) lse += std::abs(random_.normal());
          std::ranges::transform(exact, out.begin(), [](double x) { return float(x); });
          put("out", at(call.out_stride), out);
        } else {
          fill_row("out", at(call.out_stride), call.v_dim, 0.1);
          const semantics::KeyRanges keys =
              semantics::visible_keys(call.window, i + sequence.offset, sequence.kv_len);
          const Index visible =
              keys.first.end - keys.first.begin + keys.window.end - keys.window.begin;
          lse = std::log(double(visible)) + 0.5;
        }
        image<float>("lse")[semantics::lse_offset(call, place, head)] = static_cast<float>(lse);
        if (gradients.dlse) {
          image<float>("dlse")[semantics::lse_offset(gradients.dlse_stride, place, head)] =
              draw(spread_.gradient);
        }
      }
    }
  }
}

// One to three numbers that are none, anywhere that a row looks.
void Filler::put_strange(const semantics::Call& call) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  constexpr float none = std::numeric_limits<float>::quiet_NaN();
  const auto spoil = [&](const char* name, DType dtype, Index at) {
    float number = random_.one_of({none, none, infinity, -infinity});
    if (name == std::string_view("sinks") && number == infinity) number = none;  // 0 or NaN: either
    to_elements(dtype, {&number, 1}, image<std::byte>(name) + at * size_in_bytes(dtype));
  };
  for (Index left = call.batch > 0 ? random_.between(1, 3) : 0; left > 0; --left) {
    const semantics::Sequence sequence = semantics::sequence(call, random_.below(call.batch));
    const semantics::KeyRanges keys = semantics::visible_to_some(
        call.window, sequence.offset, sequence.offset + sequence.q_len - 1, sequence.kv_len);
    if (sequence.q_len == 0) continue;
    const bool early = !semantics::is_empty(keys.first) && random_.chance(0.5);
    const semantics::Range some = early ? keys.first : keys.window;
    if (semantics::is_empty(some)) continue;
    const Index query = random_.below(sequence.q_len), head = random_.below(call.heads);
    const Index key = random_.between(some.begin, some.end - 1);
    const Index kv_head = semantics::kv_head_of(call, head);
    const semantics::Place q_place = semantics::query_place(call, sequence, query);
    const semantics::Place k_place = semantics::key_place(call, sequence, key);
    switch (random_.below(6)) {
      case 0:
        if (call.qk_dim > 0)
          spoil("q", problem_.dtype,
                semantics::row_offset(call.q_stride, q_place, head) + random_.below(call.qk_dim));
        break;
      case 1:
        if (call.qk_dim > 0)
          spoil(
              "k", problem_.dtype,
              semantics::row_offset(call.k_stride, k_place, kv_head) + random_.below(call.qk_dim));
        break;
      case 2:
        if (call.v_dim > 0)
          spoil("v", problem_.dtype,
                semantics::row_offset(call.v_stride, k_place, kv_head) + random_.below(call.v_dim));
        break;
      case 3:
        if (call.bias)
          spoil("bias", problem_.bias.dtype,
                semantics::pair_offset(call.bias_stride, sequence.index, head, query, key));
        break;
      case 4:
        if (call.sinks) spoil("sinks", DType::f32, head);
        break;
      default:
        if (call.alibi)
          spoil("alibi", DType::f32,
                (problem_.alibi_per_sequence ? sequence.index * call.heads : 0) + head);
    }
  }
}

// Bias and mask, only where a query may look.
void Filler::fill_pairs(const semantics::Call& call) {
  if (!call.bias && !call.mask) return;
  const bool per_head = (problem_.bias.present() && problem_.bias.varies[1]) ||
                        (problem_.mask.present() && problem_.mask.varies[1]);
  const float minus_infinity = -std::numeric_limits<float>::infinity();
  for (Index b = 0; b < call.batch; ++b) {
    const semantics::Sequence sequence = semantics::sequence(call, b);
    for (Index head = 0; head < (per_head ? call.heads : 1); ++head) {
      for (Index i = 0; i < sequence.q_len; ++i) {
        const bool blocked_row = fill_ == Fill::hostile && random_.chance(0.05);
        for (Index key = 0; key < sequence.kv_len; ++key) {
          if (!semantics::in_window(call.window, i + sequence.offset, key, sequence.kv_len))
            continue;
          if (call.bias) {
            const bool blocked = spread_.blocked_bias && (blocked_row || random_.chance(0.1));
            const float bias = blocked ? minus_infinity : draw(spread_.bias);
            const Index at = semantics::pair_offset(call.bias_stride, b, head, i, key);
            to_elements(problem_.bias.dtype, {&bias, 1},
                        image<std::byte>("bias") + at * size_in_bytes(problem_.bias.dtype));
          }
          if (call.mask) {
            const Index at = semantics::pair_offset(call.mask_stride, b, head, i, key);
            image<std::uint8_t>("mask")[at] = !blocked_row && random_.chance(0.8) ? 1 : 0;
          }
        }
      }
    }
  }
}

}  // namespace rapt::verify
