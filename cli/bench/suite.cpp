#include "cli/bench/suite.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "src/core/closest.hpp"
#include "src/core/problem_tokens.hpp"

namespace rapt::cli {
namespace {

std::string_view without_comment(std::string_view line) {
  line = line.substr(0, line.find('#'));
  const std::size_t first = line.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
}

void append_problems(std::string_view name, std::string_view content,
                     std::vector<Problem>& result) {
  for (int number = 1; !content.empty(); ++number) {
    const std::string_view line = content.substr(0, content.find('\n'));
    content.remove_prefix(std::min(line.size() + 1, content.size()));
    const std::string_view problem = without_comment(line);
    if (problem.empty()) continue;
    try {
      result.push_back(Problem::parse(problem));
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("{}, line {}: {}", name, number, error.what()));
    }
  }
}

bool is_suite(std::string_view name) {
  return std::ranges::count(built_in_suites(), name, &Suite::name) > 0;
}

bool is_word(const std::string& argument) {
  return argument.find(' ') == std::string::npos && !is_suite(argument) &&
         !std::filesystem::is_regular_file(argument);
}

// Tokens that can be read alone and not together are those of two problems.
std::string with_token(const std::string& problem, const std::string& token) {
  std::string result = fmt::format("{} {}", problem, token);
  if (reads_as_problem_tokens(problem) && reads_as_problem_tokens(token) &&
      !reads_as_problem_tokens(result)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("'{}' does not go with \"{}\", which has such a token already; quote "
                            "each problem where there are several",
                            token, problem));
  }
  return result;
}

}  // namespace

std::vector<std::string> with_whole_problems(const std::vector<std::string>& arguments) {
  std::vector<std::string> result;
  bool open = false;  // the last one of `result` is made of words
  for (const std::string& argument : arguments) {
    const bool token = argument.find(' ') == std::string::npos && reads_as_problem_tokens(argument);
    // What follows tokens belongs to them: a token that is also the name of a suite or a file, and
    // a mistyped one, so that it is told as such.
    if (open && (token || is_word(argument))) {
      result.back() = with_token(result.back(), argument);
    } else {
      open = token && is_word(argument);
      result.push_back(argument);
    }
  }
  return result;
}

std::string_view summary(const Suite& suite) {
  const std::string_view line = suite.content.substr(0, suite.content.find('\n'));
  return line.starts_with("# ") ? line.substr(2) : std::string_view();
}

std::vector<Problem> problems_named(const std::vector<std::string>& names) {
  std::vector<Problem> result;
  const std::vector<Suite> suites = built_in_suites();
  for (const std::string& name : names) {
    const auto suite = std::ranges::find(suites, name, &Suite::name);
    if (suite != suites.end()) {
      append_problems(name, suite->content, result);
    } else if (std::filesystem::is_regular_file(name)) {
      std::ifstream file(name);
      const std::string content(std::istreambuf_iterator<char>(file), {});
      append_problems(name, content, result);
    } else if (name.find(' ') == std::string::npos && !reads_as_problem_tokens(name)) {
      std::vector<std::string_view> known;
      for (const Suite& each : suites) known.push_back(each.name);
      throw Error(ErrorCode::not_found,
                  fmt::format("'{}' is neither a suite ({}), nor a file, nor a problem such as "
                              "\"b1 h16 s2048 d64 f32\"{}",
                              name, fmt::join(known, ", "), did_you_mean(name, known)));
    } else {
      result.push_back(Problem::parse(name));
    }
  }
  return result;
}

}  // namespace rapt::cli
