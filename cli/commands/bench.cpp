// `rapt bench`: every kernel that can, on every problem of a suite, beside the machine's roof.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <set>

#include "cli/arrays/output_file.hpp"
#include "cli/bench/baseline.hpp"
#include "cli/bench/bench_table.hpp"
#include "cli/bench/record.hpp"
#include "cli/bench/report.hpp"
#include "cli/bench/suite.hpp"
#include "cli/limits/limits.hpp"
#include "cli/program.hpp"
#include "cli/progress.hpp"
#include "cli/terminal.hpp"
#include "src/core/text.hpp"

namespace rapt::cli {
namespace {

struct BenchOptions {
  std::vector<std::string> names = {"default"};
  std::string json, csv;
  double seconds = 0.5;
  bool chosen_only = false;
  double within = 0;
  std::size_t warmup = 0, runs = 0;
  bool quiet = false;
  std::string baseline;
  double threshold = 10;
};

std::string command_line(const SharedOptions& shared, const BenchOptions& options) {
  std::string line = "rapt bench";
  for (const std::string& name : options.names) {
    const std::string_view quote = name.find(' ') == std::string::npos ? "" : "\"";
    line += fmt::format(" {0}{1}{0}", quote, name);
  }
  if (shared.names_device()) line += fmt::format(" --device {}", shared.device_text);
  if (!shared.kernel.empty()) line += fmt::format(" --kernel {}", shared.kernel);
  if (!shared.config_text.empty()) line += fmt::format(" --config {}", shared.config_text);
  if (options.chosen_only) line += " --chosen";
  if (options.within > 0) line += fmt::format(" --within {}", options.within);
  if (shared.thread_number) line += fmt::format(" --threads {}", *shared.thread_number);
  if (options.warmup > 0) line += fmt::format(" --warmup {}", options.warmup);
  return line + (options.runs > 0 ? fmt::format(" --runs {}", options.runs)
                                  : fmt::format(" --seconds {}", options.seconds));
}

// Where the table goes: to stderr where rows take standard output.
std::FILE* table_stream(const BenchOptions& options) {
  const bool json = is_standard_stream(options.json), csv = is_standard_stream(options.csv);
  if (json && csv) {
    throw Error(ErrorCode::invalid_argument,
                "--json and --csv both go to standard output; give one of them a file");
  }
  return json || csv ? stderr : stdout;
}

// Read before anything is timed: nobody waits for a comparison that cannot be.
std::optional<Baseline> baseline_for(const BenchOptions& options, const SharedOptions& shared,
                                     std::span<const Problem> problems, const Device& device) {
  if (options.baseline.empty()) return std::nullopt;
  Baseline baseline = Baseline::read(options.baseline);
  if (!baseline.covers(problems, device, shared.kernel)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} has no time of these problems on {}{}; it was measured by `{}`",
                            baseline.name, device.to_string(),
                            shared.kernel.empty() ? "" : " by " + shared.kernel, baseline.command));
  }
  if (const std::string other = baseline.other_machine(device); !other.empty())
    print_warning(other);
  return baseline;
}

int bench(const SharedOptions& shared, BenchOptions options) {
  require_output_name("--json", options.json);
  require_output_name("--csv", options.csv);
  require_input_name("--baseline", options.baseline);
  options.names = with_whole_problems(options.names);
  const std::vector<Problem> problems = problems_named(options.names);
  std::FILE* const out = table_stream(options);
  const Device device = shared.device();
  shared.check_kernel_is_for(device);
  shared.check_environment_is_for(device);
  const std::optional<Baseline> baseline = baseline_for(options, shared, problems, device);
  if (options.quiet) Progress::silence();
  Record record(options.json, options.csv);
  const BenchContext context = {device, roof_limits(device), command_line(shared, options)};
  record.begin(context);
  const std::optional<std::size_t> width = terminal_width(out);
  const BenchTable table(device, problems, width);
  const std::string limits = fmt::format("{}, {}: {} f32, {} read", device.name, width_of(device),
                                         human_quantity(context.limits.f32_flops, "flop/s"),
                                         human_quantity(context.limits.read_bandwidth, "B/s"));
  const auto show = [&](std::string_view text) {
    if (options.quiet) return;
    fmt::print(out, "{}", text);
    flush(out);
  };
  show(wrapped(limits, width, 2) + "\n" + table.header());

  bool wrong = false;
  std::set<std::string> warned;
  Progress progress(static_cast<std::int64_t>(problems.size()));
  const auto starting = [&](std::string_view kernel, double seconds) {
    progress.starts(kernel, seconds);
  };
  for (std::size_t i = 0; i < problems.size(); ++i) {
    progress.show(static_cast<std::int64_t>(i), problems[i].to_string());
    const std::vector<Measurement> rows =
        measure(problems[i], device, context.limits,
                {options.seconds, &shared, options.chosen_only, options.within, starting,
                 options.warmup, options.runs});
    progress.hide();
    for (const std::string& warning : explain(problems[i], device).warnings) {
      if (warned.insert(warning).second) print_warning(warning);
    }
    if (rows.empty()) {
      throw Error(ErrorCode::unsupported,
                  fmt::format("no kernel to time on {}; `rapt kernels` lists what there is",
                              device.to_string()));
    }
    record.add(rows);
    show(table.rows(rows));
    for (const Measurement& row : rows) {
      if (!row.wrong()) continue;
      wrong = true;
      if (options.quiet)
        print_error(fmt::format("{} on {}: {}", row.kernel, row.problem, row.status));
    }
  }
  show(wrapped(choice_summary(record.rows()), width, 2));
  record.finish();
  bool slower = false;
  if (baseline) {
    const Changes changes(*baseline, record.rows(), options.threshold);
    fmt::print(out, "{}", changes.to_string(width));
    slower = changes.slower();
  }
  return wrong || slower ? failed_check : success;
}

std::string suite_list() {
  const std::vector<Suite> suites = built_in_suites();
  const auto length = [](const Suite& suite) { return suite.name.size(); };
  const std::size_t longest = length(std::ranges::max(suites, {}, length));
  std::string result = "Suites:\n";
  for (const Suite& suite : suites)
    result += fmt::format("  {:<{}}  {}\n", suite.name, longest, summary(suite));
  return result +
         "\n* marks the kernel rapt would choose. Roofs come from measured limits (rapt devices "
         "--measure).\n"
         "± is half of what lies between the quartiles of the times, in % of their median, which "
         "is the time.\n"
         "Inputs of memory-bound problems rotate through more memory than the caches hold.\n"
         "On a GPU a time is taken by events around one run, with a cold cache; where the best is "
         "below 50 µs also as one of many in a row: replayed from a graph, and launched one by "
         "one.\n"
         "A terminal that is too narrow goes without columns, in this order: " +
         BenchTable::drop_order() +
         ".\nFiles are whole after every problem; a bench that is stopped keeps its rows.";
}

}  // namespace

void add_bench(CLI::App& app, Session& session) {
  const auto options = std::make_shared<BenchOptions>();
  CLI::App& command = add_command(
      app, session, "bench",
      "Time every kernel that takes a problem: error, time, rate, % of roof, memory, speedup over "
      "naive",
      {.kernel = "Time this kernel only. Default: every kernel that rapt may choose"},
      [&session, options] { return bench(session.options, *options); });
  command.add_option("problems", options->names, "Suites, files of problems, or problems")
      ->type_name("SUITE|FILE|PROBLEM")
      ->capture_default_str();
  CLI::Option* seconds = command
                             .add_option("--seconds", options->seconds,
                                         "How long to sample each kernel on each problem")
                             ->check(in_range<double>(0, 3600))
                             ->capture_default_str()
                             ->type_name("SECONDS");
  command
      .add_option("--runs", options->runs,
                  "Time so many runs of each kernel on each problem, however long they take")
      ->check(in_range<std::size_t>(1, 1000000))
      ->type_name("N")
      ->excludes(seconds);
  command
      .add_option("--warmup", options->warmup,
                  "Runs of each kernel before the timed ones, after the one that is checked")
      ->check(in_range<std::size_t>(0, 1000000))
      ->capture_default_str()
      ->type_name("N");
  CLI::Option* kernel = command.get_option("--kernel");
  command.get_option("--config")->needs(kernel);
  CLI::Option* chosen =
      command.add_flag("--chosen", options->chosen_only, "Time only the kernel rapt would choose")
          ->excludes(kernel);
  command
      .add_option("--within", options->within,
                  "Leave out kernels that rapt expects to take so many times what its choice does")
      ->check(in_range<double>(1, 1000000))
      ->type_name("TIMES")
      ->excludes(chosen)
      ->excludes(kernel);
  command
      .add_option("--json", options->json,
                  "Also write the rows as JSON. With - to standard output, and the table to "
                  "standard error")
      ->type_name("FILE");
  command.add_option("--csv", options->csv, "Also write the rows as CSV, - as for --json")
      ->type_name("FILE");
  CLI::Option* baseline =
      command
          .add_option("--baseline", options->baseline,
                      "Say what changed since that file was written by --json; exit code 1 if "
                      "anything got slower")
          ->type_name("FILE");
  command
      .add_option("--threshold", options->threshold,
                  "By how many percent medians must differ from the baseline's to count")
      ->check(in_range<double>(0, 1000000))
      ->capture_default_str()
      ->type_name("PERCENT")
      ->needs(baseline);
  command.add_flag("--quiet", options->quiet,
                   "No table and no progress: files, what changed, and the exit code alone");
  command.footer(suite_list());
}

}  // namespace rapt::cli
