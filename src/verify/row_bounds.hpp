// What one row's result may be off by, and what rounding may do to the sum over all rows
// (docs/numerics.md derives it): the contract's numbers, one row at a time.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "rapt/rapt.hpp"
#include "src/oracle/oracle.hpp"

namespace rapt::verify {

// A row as the oracle has it, and how far from it a result may be. `allowed` goes with elements,
// `row` with the norm of the row's error. All are absolute.
struct RowBounds {
  std::vector<double> out, allowed;
  double lse = 0, lse_allowed = 0;
  double norm_squared = 0;  // of out
  double size = 0;          // its norm, or what that would be if values were independent
  double row = 0;

  // Error times out, summed over the row: what may happen to it for sure (roundings of scores and
  // sums), the variance of independent roundings, what the result's own rounding does, and what
  // 16-bit weights that round alike do: where the largest is a power of two, where exponents are
  // relative to a whole number, and where to any.
  double firm = 0, variance = 0, rounding = 0;
  std::array<double, 3> alike = {};

  bool in_range = true;  // false: an infinity or NaN in q or k, with which the row may be NaN
};

RowBounds bounds_of(const Problem& problem, const semantics::Call& call, const Row& row);

// The least step of a type's numbers near 0 that a result may be off by.
double smallest_step(DType dtype);
// Half the distance from 1 to the next number.
double unit_roundoff(DType dtype);

}  // namespace rapt::verify
