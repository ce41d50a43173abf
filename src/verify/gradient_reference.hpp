// What the oracle says of a backward problem's gradients, and whether a result keeps the contract
// of docs/numerics.md.
//
// Every gradient is a sum of coefficients times vectors: dq of dX · scale and keys, dk of the same
// and queries, dv of P and dout; dbias, dsinks and dalibi of numbers. What a coefficient may be off
// by, for sure and as a variance, gives what the sum may be off by.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "src/oracle/pair_gradients.hpp"
#include "src/verify/data.hpp"

namespace rapt::verify {

struct Comparison;

class GradientReference {
 public:
  // Looks at every gradient; where that is much work, at about `most_rows` rows of dq and of dk and
  // dv, drawn by the seed. `data` must outlive it.
  GradientReference(const Data& data, std::int64_t most_rows, std::uint64_t seed);

  Comparison compare(const Results& results) const;

  // A row of dq, dk or dv, or one number of dbias, dsinks or dalibi.
  struct Target {
    std::string_view tensor;
    std::array<semantics::Index, 4> coordinates;  // as the tensor has them
    semantics::Index offset;                      // of its first element
    DType dtype;
    bool in_range;  // false: something it is made of is not finite, or too large to say
    std::vector<double> expected, allowed;
    // Error times expected: what may happen to it for sure, and the variance.
    double firm = 0, variance = 0;
    std::array<double, 2> lost = {};  // by what rounding takes from the very coefficients
  };

 private:
  const Data& data_;
  const BackwardCall backward_;
  std::vector<Target> targets_;
};

}  // namespace rapt::verify
