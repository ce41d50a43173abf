// Dropout of one row of pairs at a time, for CPU kernels.
#pragma once

#include "src/semantics/dropout.hpp"
#include "src/semantics/visibility.hpp"

namespace rapt {

// numbers[i], of the pair of a query and key keys.begin + i, times `kept` where dropout keeps the
// pair, and times 0 where it does not.
void apply_dropout(const semantics::DropoutStream& dropout, semantics::Index query,
                   semantics::Range keys, float kept, float* numbers);

}  // namespace rapt
