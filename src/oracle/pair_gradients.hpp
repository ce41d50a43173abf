// Backward in fp64, one pair of a query and a key at a time, straight from the formulas: what every
// gradient is a sum of.
//
//   P  = e^(s − lse)                     the weight
//   Z  = 1 / (1 − p) of pairs that dropout keeps, 0 of others; 1 without dropout
//   D  = Σ dout · out − dlse             of the row
//   dS = P (Z dout · v − D)              of the score, and so of its bias
//   dX = dS · d score / d (scale q · k)  of the scaled dot product: less than dS under a soft cap
//
// dv = Σ Z P dout over queries, dk = Σ dX scale q, dq = Σ dX scale k over keys, dalibi = −Σ dS |p −
// j|, dsinks = −Σ e^(sink − lse) D over queries.
#pragma once

#include <vector>

#include "rapt/rapt.hpp"
#include "src/oracle/oracle.hpp"
#include "src/semantics/gradients.hpp"

namespace rapt {

// A backward problem's call and gradients, on the host.
struct BackwardCall {
  const Problem& problem;
  semantics::Call call;
  semantics::Gradients gradients;
};

// What the pairs of one query share.
struct GradientRow {
  Row row;
  std::vector<double> q, dout;
  double lse, delta;      // delta: D
  double delta_absolute;  // as if no terms cancelled
  double slope;
  semantics::DropoutStream dropout;

  semantics::Index position() const { return row.query + row.sequence.offset; }
};
GradientRow gradient_row(const BackwardCall& backward, const Row& row);

// Rows k and v of one key of one kv head.
struct GradientKey {
  semantics::Index key;
  std::vector<double> k, v;
};
GradientKey gradient_key(const BackwardCall& backward, const semantics::Sequence& sequence,
                         semantics::Index kv_head, semantics::Index key);

struct PairGradient {
  bool visible = false;             // false: the rest is 0
  double dot = 0, score = 0;        // the scaled dot product, s
  double weight = 0, kept = 0;      // P, Z
  double dout_v = 0;                // dout · v
  double of_score = 0, of_dot = 0;  // dS, dX
};
PairGradient pair_gradient(const BackwardCall& backward, const GradientRow& row,
                           const GradientKey& key);

// One row's part in dsinks.
double sink_gradient(const BackwardCall& backward, const GradientRow& row);

// Rows of all queries of the heads that share a kv head, head by head; and that kv head's keys.
std::vector<GradientRow> gradient_rows(const BackwardCall& backward,
                                       const semantics::Sequence& sequence,
                                       semantics::Index kv_head);
std::vector<GradientKey> gradient_keys(const BackwardCall& backward,
                                       const semantics::Sequence& sequence,
                                       semantics::Index kv_head);

extern const Kernel cpu_oracle_backward;

}  // namespace rapt
