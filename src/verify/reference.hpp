// What the oracle says of a problem's data, row by row, and whether a result keeps the contract of
// docs/numerics.md.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "rapt/rapt.hpp"
#include "src/oracle/oracle.hpp"
#include "src/verify/data.hpp"
#include "src/verify/gradient_reference.hpp"
#include "src/verify/row_bounds.hpp"

namespace rapt::verify {

// How much of what is allowed a result used up, at most, in each kind of check; beyond 1 it fails.
struct Shares {
  double element = 0, row = 0, lse = 0, whole = 0, plain = 0;

  void take_larger(const Shares& other);
};

// How a result compares. `error` and `bound` are relative (Frobenius), over the rows compared.
struct Comparison {
  double error = 0, bound = 0;
  Shares shares;
  std::string fault;  // in words; empty: within all bounds
};

// The checks of one result: the first that fails is told.
class Checks {
 public:
  explicit Checks(Comparison& result) : result_(result) {}

  template <class Sentence>
  void at_most(double Shares::*kind, double error, double allowed, Sentence&& sentence) {
    if (error == 0) return;
    const double share =
        std::isnan(error / allowed) ? std::numeric_limits<double>::infinity() : error / allowed;
    result_.shares.*kind = std::max(result_.shares.*kind, share);
    if (!(share <= 1) && share > worst_) {
      worst_ = share;
      result_.fault = sentence();
    }
  }

 private:
  Comparison& result_;
  double worst_ = 1;
};

class Reference {
 public:
  // Looks at every row, or at about `most_rows` of them drawn by the seed. `data` must outlive it.
  Reference(const Data& data, std::int64_t most_rows, std::uint64_t seed);

  Comparison compare(const Results& results) const;

  // A row, and its part in the whole.
  struct Expected {
    Row row;
    RowBounds bounds;
    double plain_error_squared = 0;  // of the plain 16-bit computation
  };
  const std::vector<Expected>& rows() const { return rows_; }

 private:
  Expected expected(const Row& row) const;

  const Data& data_;
  semantics::Call call_;
  std::vector<Expected> rows_;                  // of forward
  std::optional<GradientReference> gradients_;  // of backward
};

}  // namespace rapt::verify
