// What the CPU's backward kernels keep of every row beside its tensors: D, and parts of sums over
// rows; and dsinks and dalibi, which are such sums. Rows are numbered over all sequences and heads.
#pragma once

#include "rapt/rapt.hpp"
#include "src/semantics/gradients.hpp"

namespace rapt {

class BackwardRows {
 public:
  // `deltas` is (rows).
  BackwardRows(const semantics::Call& call, const semantics::Gradients& gradients,
               const Problem& problem, float* deltas)
      : call_(call), gradients_(gradients), problem_(problem), deltas_(deltas) {}

  semantics::Index row_of(const semantics::Sequence& sequence, semantics::Index head,
                          semantics::Index query) const {
    const semantics::Place place = semantics::query_place(call_, sequence, query);
    const semantics::Index rows = call_.q_starts ? call_.total_q : call_.batch * call_.q_len;
    return head * rows + place.outer * call_.q_len + place.row;
  }

  // D = Σ dout · out − dlse
  void store_deltas(const semantics::Sequence& sequence, semantics::Index head,
                    semantics::Range queries) const;
  float delta(semantics::Index row) const { return deltas_[row]; }

  // Once all deltas are stored.
  void store_sinks(Executor& executor) const;
  // From parts of each row, −Σ dS |p − j|: `copies` of them, `stride` apart.
  void store_slopes(Executor& executor, const float* parts, semantics::Index copies,
                    semantics::Index stride) const;

 private:
  const semantics::Call& call_;
  const semantics::Gradients& gradients_;
  const Problem& problem_;
  float* deltas_;
};

}  // namespace rapt
