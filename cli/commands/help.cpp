// `rapt help`: the help of a command, the tokens of problems, and the manual page.
#include <fmt/format.h>

#include <memory>

#include "cli/manual.hpp"
#include "cli/program.hpp"
#include "cli/table.hpp"
#include "cli/terminal.hpp"
#include "src/core/closest.hpp"
#include "src/core/problem_tokens.hpp"

namespace rapt::cli {
namespace {

constexpr const char* about_problems =
    "A problem is a list of tokens in any order; it needs lengths and a head dim. Quotes may be "
    "left "
    "out.";

void print_tokens() {
  const std::optional<std::size_t> width = terminal_width(stdout);
  Table table;
  table.column("token");
  table.column("meaning");
  for (const ProblemToken& token : problem_tokens())
    table.row({std::string(token.forms), std::string(token.meaning)});
  fmt::print(
      "{}\n\n  b2 h32/8 q1 kv8192 d128 bf16 causal page16\n"
      "  b4 h8 s1000 d96/64 f16 causal window128 softcap30 lse\n\n{}",
      wrapped(about_problems, width, 0), table.to_string(width));
}

int help(const CLI::App& app, const std::string& topic) {
  if (topic == "problem") {
    print_tokens();
    return success;
  }
  if (topic.empty()) {
    print_help(app.help());
    return success;
  }
  if (topic == "man") {
    fmt::print("{}", manual_page(catalogue(app)));
    return success;
  }
  std::vector<std::string_view> topics = {"problem", "man"};
  for (const CLI::App* command : app.get_subcommands({})) {
    topics.push_back(command->get_name());
    if (command->get_name() != topic) continue;
    print_help(command->help("rapt"));
    return success;
  }
  throw Error(ErrorCode::not_found,
              fmt::format("there is no help on '{}'{}; there is on {}", topic,
                          did_you_mean(topic, topics), fmt::join(topics, ", ")));
}

}  // namespace

void add_help(CLI::App& app, Session& session) {
  const auto topic = std::make_shared<std::string>();
  CLI::App& command =
      *app.add_subcommand("help",
                          "Tell of a command, of the tokens of problems, or all of it as a "
                          "manual page.")
           ->group("Commands");
  command.add_option("topic", *topic, "A command, problem, or man (for: rapt help man | man -l -)")
      ->type_name("COMMAND|problem|man");
  command.callback(
      [&app, &session, topic] { session.action = [&app, topic] { return help(app, *topic); }; });
}

}  // namespace rapt::cli
