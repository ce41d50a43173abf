// `rapt tune`: races every kernel with every config on given problems, and stores the winners where
// selection finds them.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "cli/arrays/output_file.hpp"
#include "cli/bench/race.hpp"
#include "cli/bench/suite.hpp"
#include "cli/limits/limits.hpp"
#include "cli/program.hpp"
#include "cli/progress.hpp"
#include "cli/table.hpp"
#include "cli/terminal.hpp"
#include "src/core/text.hpp"
#include "src/core/tuning_file.hpp"

namespace rapt::cli {
namespace {

struct TuneOptions {
  std::vector<std::string> names = {"default"};
  std::string output;
  double seconds = 0.5;
};

std::vector<TunedWinner> winners_in(const std::string& path) {
  if (is_standard_stream(path)) {
    throw Error(ErrorCode::invalid_argument,
                "winners are put among those that a file has already, and standard output has "
                "none; give a file with --output");
  }
  std::error_code unknown;
  if (!std::filesystem::exists(path, unknown)) return {};
  if (!std::filesystem::is_regular_file(path, unknown)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the tuning file {} is not a regular file; give another place with "
                            "--output",
                            path));
  }
  try {
    return read_tuning_file(path);
  } catch (const Error& error) {
    throw Error(error.code(),
                fmt::format("{}; remove it, or give another place with --output", error.what()));
  }
}

// In place of what is known of its machine and problem, by whatever version of rapt. Everything
// else in the file stays.
void store(const TunedWinner& winner, const std::string& path) {
  std::vector<TunedWinner> winners = winners_in(path);
  std::erase_if(winners, [&](const TunedWinner& other) {
    return other.machine == winner.machine && other.problem == winner.problem;
  });
  winners.push_back(winner);
  OutputFile file(path);
  file.write(print_tuning(winners));
  file.commit();
}

// Where the winners go. What cannot be written fails now, not after the first race.
std::string output_path(const TuneOptions& options) {
  std::string path = options.output.empty() ? tuning_file_path() : options.output;
  if (path.empty()) {
    throw Error(ErrorCode::invalid_argument,
                "there is no place for the winners: RAPT_TUNING is set to nothing, or neither "
                "XDG_CONFIG_HOME nor HOME names a folder; give one with --output FILE");
  }
  winners_in(path);
  if (options.output.empty()) {
    std::error_code unknown;  // OutputFile says what is wrong
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), unknown);
  }
  OutputFile try_it(path);
  return path;
}

void check(const SharedOptions& shared) {
  if (!shared.kernel.empty() && kernel_info(shared.kernel).by_name_only) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("--kernel is {}, which is never chosen and so cannot win", shared.kernel));
  }
}

bool competes(const Candidate& candidate, const SharedOptions& shared) {
  if (!shared.kernel.empty()) return candidate.kernel == shared.kernel;
  return !kernel_info(candidate.kernel).by_name_only;
}

const Finish* winner_of(const std::vector<Finish>& finishes) {
  const Finish* best = nullptr;
  for (const Finish& finish : finishes) {
    if (!finish.fault.empty()) continue;
    if (!best || finish.samples.median() < best->samples.median()) best = &finish;
  }
  return best;
}

double loss(const Finish& finish, const Finish& winner) {
  return 100 * (finish.samples.median() / winner.samples.median() - 1);
}

// What the winner is worth: how much slower rapt would be without it.
std::string estimate_line(const Explanation& explanation, const std::vector<Finish>& finishes,
                          const Finish& winner) {
  const auto candidate =
      std::ranges::find(explanation.candidates, explanation.least_estimate, &Candidate::kernel);
  const Config& config = candidate->configs.front();
  std::string line = fmt::format("  by estimate: {}", candidate->kernel);
  if (!config.values.empty()) line += fmt::format(" {}", config.to_string());
  const auto finish = std::ranges::find_if(finishes, [&](const Finish& each) {
    return each.kernel == candidate->kernel && each.config == config;
  });
  if (finish == finishes.end()) return line + ", not in this race\n";
  if (!finish->fault.empty()) return line + ", which is wrong\n";
  if (&*finish == &winner) return line + ", the winner\n";
  return line + fmt::format(", {:.1f} % slower than the winner\n", loss(*finish, winner));
}

std::string table_of(const Explanation& explanation, const std::vector<Finish>& finishes,
                     const Finish* winner, const SharedOptions& shared) {
  Table table;
  table.column("  kernel");
  table.column("config");
  table.column("time", Align::right);
  table.column("runs", Align::right);
  table.column("over the winner");
  for (const Finish& finish : finishes) {
    const std::string remark = !finish.fault.empty() ? "wrong: " + finish.fault
                               : &finish == winner   ? ""
                                                   : fmt::format("{:.1f} %", loss(finish, *winner));
    table.row({fmt::format("{} {}", &finish == winner ? '*' : ' ', finish.kernel),
               finish.config.to_string(), human_seconds(finish.samples.median()),
               fmt::format("{}", finish.samples.count()), remark});
  }
  for (const Candidate& candidate : explanation.candidates) {
    if (candidate.refusal.empty() || !competes(candidate, shared)) continue;
    table.row(
        {fmt::format("  {}", candidate.kernel), "", "-", "-", "refused: " + candidate.refusal});
  }
  return table.to_string(terminal_width(stdout));
}

// What one problem came to.
struct Verdict {
  std::optional<TunedWinner> winner;  // absent where nobody takes the problem, or all are wrong
  bool wrong = false;                 // somebody's result
  std::string table;
};

Verdict tune_problem(const Problem& problem, const Device& device, const Limits& limits,
                     const SharedOptions& shared, double seconds, Progress& progress) {
  const Explanation explanation = explain(problem, device);
  std::vector<Entrant> entrants;
  if (std::ranges::none_of(explanation.candidates,
                           [&](const Candidate& each) { return competes(each, shared); })) {
    throw Error(ErrorCode::unsupported,
                fmt::format("no kernel to tune on {}; `rapt kernels` lists what there is",
                            device.to_string()));
  }
  for (const Candidate& candidate : explanation.candidates) {
    if (!competes(candidate, shared)) continue;
    for (const Config& config : candidate.configs)
      entrants.push_back({candidate.kernel, config, candidate.seconds});
  }
  std::vector<Finish> finishes;
  std::string why_none = "  no winner\n";
  try {
    finishes = race(problem, device, roof_of(problem, limits), entrants,
                    {seconds, Losers::drop_out, [&](std::string_view kernel, double expected) {
                       progress.starts(kernel, expected);
                     }});
  } catch (const Error& error) {
    if (error.code() != ErrorCode::out_of_memory) throw;
    why_none = fmt::format("  no winner: {}\n", error.what());
  }
  const Finish* winner = winner_of(finishes);
  Verdict verdict;
  verdict.wrong =
      std::ranges::any_of(finishes, [](const Finish& each) { return !each.fault.empty(); });
  verdict.table =
      fmt::format("{}\n{}{}", problem.to_string(), table_of(explanation, finishes, winner, shared),
                  winner ? estimate_line(explanation, finishes, *winner) : why_none);
  if (winner) {
    verdict.winner = {.version = std::string(version()),
                      .machine = tuning_machine(device),
                      .problem = problem.to_string(),
                      .kernel = winner->kernel,
                      .config = winner->config,
                      .seconds = winner->samples.median()};
  }
  return verdict;
}

int tune(const SharedOptions& shared, const TuneOptions& options) {
  check(shared);
  require_output_name("--output", options.output);
  const std::vector<Problem> problems = problems_named(with_whole_problems(options.names));
  const Device device = shared.device();
  shared.check_kernel_is_for(device);
  shared.check_environment_is_for(device);
  const std::string path = output_path(options);
  const Limits limits = roof_limits(device);
  fmt::print("{}, {}\n", device.name, width_of(device));

  std::size_t stored = 0;
  bool wrong = false;
  Progress progress(static_cast<std::int64_t>(problems.size()));
  for (std::size_t i = 0; i < problems.size(); ++i) {
    progress.show(static_cast<std::int64_t>(i), problems[i].to_string());
    const Verdict verdict =
        tune_problem(problems[i], device, limits, shared, options.seconds, progress);
    progress.hide();
    fmt::print("{}", verdict.table);
    flush(stdout);
    wrong = wrong || verdict.wrong;
    if (!verdict.winner) continue;
    store(*verdict.winner, path);
    ++stored;
  }
  const std::string summary = fmt::format(
      "{} of {} problems have their winners in {}{}", stored, problems.size(), path,
      path == tuning_file_path() ? "" : fmt::format("; to obey it, set RAPT_TUNING={}", path));
  fmt::print("{}\n", wrapped(summary, terminal_width(stdout), 2));
  return wrong ? failed_check : success;
}

}  // namespace

void add_tune(CLI::App& app, Session& session) {
  const auto options = std::make_shared<TuneOptions>();
  CLI::App& command = add_command(
      app, session, "tune",
      "Time every kernel that takes a problem with every config it offers, and remember the "
      "winners: from then on rapt chooses them for these problems on this machine.",
      {.kernel = "Tune among this kernel's configs. Default: every kernel that rapt may choose",
       .config = nullptr},
      [&session, options] { return tune(session.options, *options); });
  command.add_option("problems", options->names, "Suites, files of problems, or problems")
      ->type_name("SUITE|FILE|PROBLEM")
      ->capture_default_str();
  command
      .add_option("--seconds", options->seconds,
                  "How long to sample each kernel with each config on each problem")
      ->check(in_range<double>(0, 3600))
      ->capture_default_str()
      ->type_name("SECONDS");
  command
      .add_option("--output", options->output,
                  "Where the winners go, a file: not -. Default: RAPT_TUNING, else "
                  "rapt/tuning.txt in XDG_CONFIG_HOME or ~/.config")
      ->type_name("FILE");
  command.footer(
      "* marks the winner; whoever falls far behind is timed no more. A result that the oracle "
      "does not confirm never wins, and makes the exit code 1. Winners hold for the device, its "
      "number of threads and this version of rapt; those of other machines and problems stay in "
      "the file.");
}

}  // namespace rapt::cli
