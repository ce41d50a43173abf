#include "src/cpu/backward_rows.hpp"

#include <cmath>

#include "src/core/call.hpp"
#include "src/core/parallel.hpp"
#include "src/cpu/row_operations.hpp"

namespace rapt {

using semantics::Index;
using semantics::Range;

namespace {

// Of every query of some sequences, in order.
template <class Function>
double sum_of_rows(const semantics::Call& call, Range sequences, Function&& part) {
  double sum = 0;
  for (Index b = sequences.begin; b < sequences.end; ++b) {
    const semantics::Sequence sequence = semantics::sequence(call, b);
    for (Index query = 0; query < sequence.q_len; ++query) sum += part(sequence, query);
  }
  return sum;
}

}  // namespace

void BackwardRows::store_deltas(const semantics::Sequence& sequence, Index head,
                                Range queries) const {
  with_element_type(problem_.out_dtype, [&](auto type) {
    using Out = decltype(type);
    for (Index query = queries.begin; query < queries.end; ++query) {
      const semantics::Place place = semantics::query_place(call_, sequence, query);
      const auto* out =
          static_cast<const Out*>(call_.out) + semantics::row_offset(call_.out_stride, place, head);
      const auto* dout = static_cast<const Out*>(gradients_.dout) +
                         semantics::row_offset(gradients_.dout_stride, place, head);
      double sums[8] = {};
      for (Index d = 0; d < call_.v_dim; ++d)
        sums[d % 8] += double(to_float(out[d])) * double(to_float(dout[d]));
      double delta = 0;
      for (const double sum : sums) delta += sum;
      if (gradients_.dlse)
        delta -=
            double(gradients_.dlse[semantics::lse_offset(gradients_.dlse_stride, place, head)]);
      deltas_[row_of(sequence, head, query)] = static_cast<float>(delta);
    }
  });
}

void BackwardRows::store_sinks(Executor& executor) const {
  parallel_for(executor, call_.heads, [&](Index head) {
    const double sink = call_.sinks[head];
    const bool absent = sink == double(minus_infinity);
    gradients_.dsinks[head] = static_cast<float>(
        sum_of_rows(call_, {0, call_.batch}, [&](const semantics::Sequence& sequence, Index query) {
          if (absent) return 0.0;
          const semantics::Place place = semantics::query_place(call_, sequence, query);
          const double lse = call_.lse[semantics::lse_offset(call_, place, head)];
          return -std::exp(sink - lse) * double(delta(row_of(sequence, head, query)));
        }));
  });
}

void BackwardRows::store_slopes(Executor& executor, const float* parts, Index copies,
                                Index stride) const {
  const bool per_sequence = problem_.alibi_per_sequence;
  parallel_for(executor, (per_sequence ? call_.batch : 1) * call_.heads, [&](Index item) {
    const Index b = item / call_.heads, head = item % call_.heads;
    const Range range = per_sequence ? Range{b, b + 1} : Range{0, call_.batch};
    gradients_.dalibi[b * gradients_.dalibi_stride + head] = static_cast<float>(
        sum_of_rows(call_, range, [&](const semantics::Sequence& sequence, Index query) {
          const float* part = parts + row_of(sequence, head, query);
          double sum = 0;
          for (Index i = 0; i < copies; ++i) sum += double(part[i * stride]);
          return sum;
        }));
  });
}

}  // namespace rapt
