#include "cli/program.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <system_error>

#include "cli/interruption.hpp"
#include "cli/terminal.hpp"
#include "src/core/closest.hpp"

namespace rapt::cli {
namespace {

constexpr const char* program_description =
    "rapt: exact attention on CPUs, NVIDIA and AMD GPUs.\n"
    "\n"
    "A problem is written as a string of tokens, e.g. \"b2 h32/8 q1 kv8192 d128 bf16 causal "
    "page16\": batch, query/kv heads, sequence lengths (s2048, or q1 kv8192), head dim, element "
    "type, features.\n"
    "`rapt help problem` lists the tokens.\n";

constexpr const char* program_footer =
    "Results go to stdout, everything else to stderr.\n"
    "Exit codes: 0 all is well, 1 a check failed, 2 the command line or an input is wrong.\n"
    "Environment, where kernels are chosen or run: RAPT_KERNEL names one, RAPT_THREADS the CPU's "
    "threads, RAPT_TUNING the tuning file (set to nothing: none), RAPT_SIMD the CPU's best vector "
    "instructions; RAPT_LOG=1 logs each plan and run; RAPT_CHECK=1 checks index data that lies on "
    "a GPU.";

// CLI11 writes sentences with a capital and over several lines; rapt's are one line after a colon.
std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  while (!text.empty() && text.back() == ' ') text.pop_back();
  const bool a_word = text.size() > 1 && !std::isupper(static_cast<unsigned char>(text[1]));
  if (a_word) text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

// Where no command was understood, CLI11 does not say what it read instead.
std::string missing_command(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  const std::vector<std::string> rest = app.remaining();
  const std::string what =
      rest.empty() ? "a command is missing"
                   : fmt::format("'{}' is not a command{}", rest.front(),
                                 did_you_mean(rest.front(), {names.begin(), names.end()}));
  return fmt::format("{}; there are {}", what, fmt::join(names, ", "));
}

// CLI11 lists what it did not expect, values of options it does not know included.
std::string unexpected_argument(const CLI::App& command) {
  const std::vector<std::string> rest = command.remaining();
  if (rest.empty())
    return fmt::format("options stand behind their command: rapt {} …", command.get_name());
  const auto option = std::ranges::find_if(
      rest, [](const std::string& argument) { return argument.starts_with('-'); });
  if (option == rest.end())
    return fmt::format("{} takes no '{}'", command.get_name(), fmt::join(rest, " "));
  std::vector<std::string> names;
  for (const CLI::Option* known : command.get_options()) {
    for (const std::string& name : known->get_lnames()) names.push_back("--" + name);
  }
  return fmt::format("{} has no option {}{}", command.get_name(), *option,
                     did_you_mean(*option, {names.begin(), names.end()}));
}

std::string parse_fault(const CLI::App& app, const CLI::ParseError& error) {
  if (app.get_subcommands().empty()) return missing_command(app);
  const bool extras = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  return extras ? unexpected_argument(*app.get_subcommands().front()) : one_line(error.what());
}

std::string help_command(const CLI::App& app) {
  const auto parsed = app.get_subcommands();
  return parsed.empty() ? "rapt --help" : fmt::format("rapt {} --help", parsed.front()->get_name());
}

void print_unwritten(int fault) {
  print_error(fmt::format("cannot write the results: {}", std::strerror(fault)));
}

// A reader that went away early (rapt kernels | head -1) had what it wanted: no fault.
int finish_output(int code) {
  if (std::fflush(stdout) == 0 || errno == EPIPE) return code;
  print_unwritten(errno);
  return wrong_input;
}

int perform(const Session& session) {
  try {
    session.options.check();
    return finish_output(session.action());
  } catch (const Error& error) {
    print_error(error.what());
  } catch (const std::bad_alloc&) {
    print_error("there is not enough memory for this; try a smaller problem");
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::broken_pipe) return success;
    if (std::ferror(stdout))  // more than its buffer holds, and nowhere to put it
      print_unwritten(error.code().value());
    else
      print_error(error.what());
  } catch (const std::exception& error) {
    print_error(fmt::format("a fault of rapt itself: {}", error.what()));
  }
  std::fflush(stdout);
  return wrong_input;
}

}  // namespace

void print_error(std::string_view sentence) {
  fmt::memory_buffer line;
  fmt::format_to(std::back_inserter(line), "rapt: {}\n", sentence);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void print_warning(std::string_view sentence) { print_error(fmt::format("warning: {}", sentence)); }

void flush(std::FILE* stream) {
  if (std::fflush(stream) != 0 && errno != EPIPE)
    throw std::system_error(errno, std::generic_category());
}

CLI::App& add_command(CLI::App& app, Session& session, const std::string& name,
                      const std::string& description, const SharedTexts& texts,
                      std::function<int()> action) {
  CLI::App& command = *app.add_subcommand(name, description)->group("Commands");
  SharedOptions& shared = session.options;
  if (texts.device)
    command.add_option("--device", shared.device_text, texts.device)->type_name("DEVICE");
  if (texts.kernel)
    command.add_option("--kernel", shared.kernel, texts.kernel)->type_name("KERNEL");
  if (texts.config)
    command.add_option("--config", shared.config_text, texts.config)->type_name("CONFIG");
  if (texts.threads)
    command.add_option("--threads", shared.thread_number, texts.threads)->type_name("N");
  command.callback([&session, action = std::move(action)] { session.action = action; });
  return command;
}

void print_help(std::string_view text) {
  constexpr std::size_t text_column = 30;  // where CLI11 begins to describe an option
  const std::optional<std::size_t> width = terminal_width(stdout);
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::size_t gap = line.rfind("  ", text_column - 2);
    fmt::print("{}\n", wrapped(line, width, gap == line.npos ? 0 : gap + 2));
  }
}

int run_program(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  watch_for_interruption();
  CLI::App app(program_description, "rapt");
  Session session;
  app.set_version_flag("--version", fmt::format("rapt {}", version()),
                       "Print the version and exit");
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.footer(program_footer);
  app.get_formatter()->label("SUBCOMMAND", "COMMAND");
  app.require_subcommand(1);
  add_devices(app, session);
  add_kernels(app, session);
  add_explain(app, session);
  add_bench(app, session);
  add_verify(app, session);
  add_run(app, session);
  add_tune(app, session);
  add_help(app, session);
  add_completion(app, session);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    print_help(app.help());
    return finish_output(success);
  } catch (const CLI::CallForVersion& version_text) {
    fmt::print("{}\n", version_text.what());
    return finish_output(success);
  } catch (const CLI::ParseError& error) {
    print_error(fmt::format("{}; see {}", parse_fault(app, error), help_command(app)));
    return wrong_input;
  }
  return perform(session);
}

}  // namespace rapt::cli
