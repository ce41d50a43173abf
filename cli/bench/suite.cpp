#include "cli/bench/suite.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

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

}  // namespace

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
    } else if (name.find(' ') == std::string::npos) {
      std::string known;
      for (const Suite& each : suites)
        known += fmt::format("{}{}", known.empty() ? "" : ", ", each.name);
      throw Error(ErrorCode::not_found,
                  fmt::format("'{}' is neither a suite ({}), nor a file, nor a problem such as "
                              "\"b1 h16 s2048 d64 f32\"",
                              name, known));
    } else {
      result.push_back(Problem::parse(name));
    }
  }
  return result;
}

}  // namespace rapt::cli
