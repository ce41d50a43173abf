// What the oracle says of a problem's data, row by row, and how far a result may be from it
// (docs/numerics.md).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "rapt/rapt.hpp"
#include "src/oracle/oracle.hpp"
#include "src/verify/data.hpp"

namespace rapt::verify {

// How a result compares: the errors, the bounds, and the worst element in words if a bound is
// broken.
struct Comparison {
  double error = 0, bound = 0;  // relative (Frobenius), over the rows compared
  std::string fault;            // empty: within all bounds
};

class Reference {
 public:
  // Looks at every row, or at about `most_rows` of them drawn by the seed. `data` must outlive it.
  Reference(const Data& data, std::int64_t most_rows, std::uint64_t seed);

  // `out` and `lse` are the whole memories, guards included, as Guarded::download() gives them.
  Comparison compare(const std::vector<std::byte>& out, const std::vector<std::byte>& lse) const;

 private:
  struct Expected {
    Row row;
    std::vector<double> out, magnitude;  // magnitude: the result if every value were positive
    double lse;
  };

  Expected expected(const Row& row);
  double largest_on_the_way(const Row& row, const std::vector<double>& scores) const;
  double largest_before_cancelling() const;
  void measure_plain(const Expected& expected);
  Comparison compare(double largest, const std::vector<std::byte>& out,
                     const std::vector<std::byte>& lse) const;
  std::string compare_lse(const Expected& expected, const std::vector<std::byte>& memory,
                          double bound) const;
  // What f32 arithmetic (TF32 products if allowed) may do to a score, for the largest one.
  double f32_bound(double largest) const;
  double bound(double largest) const;

  const Data& data_;
  semantics::Call call_;
  std::vector<Expected> rows_;
  double largest_score_ = 0;                           // in absolute value, over all rows
  double plain_error_squared_ = 0, norm_squared_ = 0;  // of the plain 16-bit computation
};

}  // namespace rapt::verify
