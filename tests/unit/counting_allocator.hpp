// Counts every allocation of the test program, on whatever thread.
#pragma once

#include <cstdint>

namespace rapt::test {

std::int64_t allocations_so_far();

}  // namespace rapt::test
