// Suites: named lists of problems, one a line, kept in bench/suites and built into the program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rapt/rapt.hpp"

namespace rapt::cli {

struct Suite {
  std::string_view name, content;  // content: problem strings, `#` begins a comment
};

// Every suite of bench/suites. (The build writes this function from the files.)
std::vector<Suite> built_in_suites();

// What a suite is for: its first comment line.
std::string_view summary(const Suite& suite);

// Arguments as the shell gave them, with the tokens of a problem that nobody quoted put together
// again: b1 h2 s33 d16. Throws Error where they are of several problems.
std::vector<std::string> with_whole_problems(const std::vector<std::string>& arguments);

// The problems of `names`: names of suites, files of the same form, or problem strings. Throws
// Error.
std::vector<Problem> problems_named(const std::vector<std::string>& names);

}  // namespace rapt::cli
