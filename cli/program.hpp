// The `rapt` program: its commands, and what they share.
//
// A command is one file with one add_<command>() that names its options and hands over its action.
// Actions print results to stdout and nothing else; they return an exit code or throw rapt::Error,
// which the program prints as one line, `rapt: <sentence>`, on stderr.
#pragma once

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>

#include "cli/options.hpp"
#include "src/core/text.hpp"

namespace rapt::cli {

enum ExitCode : int { success = 0, failed_check = 1, wrong_input = 2 };

struct Session {
  SharedOptions options;
  std::function<int()> action;  // what the command line asked for; runs once parsing is done
};

// What a command says of the shared options it takes. Null: it does not take that one.
struct SharedTexts {
  const char* device = "The chip: cpu, cuda:0 or hip:0 (rapt devices lists them). Default: cpu";
  const char* kernel =
      "The kernel, by its name (rapt kernels lists them). Default: RAPT_KERNEL, else rapt's choice";
  const char* config = "Values that replace the kernel's own: key=value,key=value";
  const char* threads =
      "Threads on the CPU. Default: RAPT_THREADS, else the processors that this process may use, "
      "or its container's quota if that is less";
};

// A command that takes shared options. More options are added to what it returns.
CLI::App& add_command(CLI::App& app, Session& session, const std::string& name,
                      const std::string& description, const SharedTexts& texts,
                      std::function<int()> action);

void add_devices(CLI::App& app, Session& session);
void add_kernels(CLI::App& app, Session& session);
void add_explain(CLI::App& app, Session& session);
void add_bench(CLI::App& app, Session& session);
void add_verify(CLI::App& app, Session& session);
void add_run(CLI::App& app, Session& session);
void add_tune(CLI::App& app, Session& session);
void add_help(CLI::App& app, Session& session);
void add_completion(CLI::App& app, Session& session);

// Takes whole numbers, or for double any, from `low` to `high`. CLI::Range would let NaN pass, and
// numbers that are too large for their type.
template <class Number>
CLI::Validator in_range(std::uint64_t low, std::uint64_t high) {
  const auto check = [low, high](const std::string& text) -> std::string {
    const std::optional<Number> value = parse_number<Number>(text);
    if (value && *value >= static_cast<Number>(low) && *value <= static_cast<Number>(high))
      return "";
    return fmt::format("'{}' is not a {} from {} to {}", text,
                       std::is_integral_v<Number> ? "whole number" : "number", low, high);
  };
  return CLI::Validator(check, "");
}

// `rapt: <sentence>` on stderr.
void print_error(std::string_view sentence);
// `rapt: warning: <sentence>` on stderr.
void print_warning(std::string_view sentence);

// What was printed so far goes out now, for whoever waits for it. Throws std::system_error where it
// cannot be written; a reader that went away early is no fault.
void flush(std::FILE* stream);

// A help text, its lines broken where the terminal ends and indented as its columns are.
void print_help(std::string_view text);

int run_program(int argc, char** argv);

}  // namespace rapt::cli
