// The tokens of problem strings, for messages, `rapt help problem` and the manual page.
// Problem::parse reads them; docs/architecture.md tells more.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace rapt {

struct ProblemToken {
  std::string_view forms,
      meaning;  // forms: examples with a space between, each of which can be read
};

// In the order in which rapt prints them.
std::span<const ProblemToken> problem_tokens();

// "b2 h32 h32/8 s2048 …"
std::string problem_token_list();

// A problem string as Problem::to_string() writes it, though its tokens may have older names; what
// cannot be read is left as it is.
std::string canonical_problem(std::string_view text);

// Whether every word of a text is a token, though the whole may not be a problem yet.
bool reads_as_problem_tokens(std::string_view text);

}  // namespace rapt
