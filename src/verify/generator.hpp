// Random problems: every feature, odd sizes, strides and alignments, in all combinations.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rapt/rapt.hpp"

namespace rapt::verify {

// The same seed gives the same problem. Small enough for the oracle, some million multiplications,
// and smaller for the emulator.
Problem random_problem(std::uint64_t seed, Backend backend = Backend::cpu,
                       Operation operation = Operation::forward);

// A batch that a plan for the problem must take too: with fewer sequences, queries, keys or packed
// rows, at the same strides. The problem's sizes are bounds.
Problem problem_within(const Problem& problem, std::uint64_t seed);

// The features a problem shows, by name, so that a run can say what it has covered.
std::vector<std::string> features_of(const Problem& problem);

// Every name that features_of can give.
std::vector<std::string> all_features(Operation operation = Operation::forward);

}  // namespace rapt::verify
