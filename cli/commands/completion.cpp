// `rapt completion`: a script for the user's shell.
#include "cli/completion.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/program.hpp"

namespace rapt::cli {
namespace {

int print_completion(const CLI::App& app, const std::string& shell) {
  const std::vector<CommandEntry> entries = catalogue(app);
  fmt::print("{}", shell == "bash"  ? bash_completion(entries)
                   : shell == "zsh" ? zsh_completion(entries)
                                    : fish_completion(entries));
  return success;
}

}  // namespace

void add_completion(CLI::App& app, Session& session) {
  const auto shell = std::make_shared<std::string>();
  CLI::App& command =
      *app.add_subcommand("completion",
                          "Print a script by which a shell completes rapt's commands: "
                          "eval \"$(rapt completion bash)\"")
           ->group("Commands");
  command.add_option("shell", *shell, "The shell that the script is for")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}).description(""))
      ->type_name("bash|zsh|fish");
  command.callback([&app, &session, shell] {
    session.action = [&app, shell] { return print_completion(app, *shell); };
  });
}

}  // namespace rapt::cli
