// What the oracle says of a problem's data, row by row, and whether a result keeps the contract of
// docs/numerics.md.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "rapt/rapt.hpp"
#include "src/oracle/oracle.hpp"
#include "src/verify/data.hpp"
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

class Reference {
 public:
  // Looks at every row, or at about `most_rows` of them drawn by the seed. `data` must outlive it.
  Reference(const Data& data, std::int64_t most_rows, std::uint64_t seed);

  // `out` and `lse` are the whole memories, guards included, as Guarded::download() gives them.
  Comparison compare(const std::vector<std::byte>& out, const std::vector<std::byte>& lse) const;

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
  std::vector<Expected> rows_;
};

}  // namespace rapt::verify
