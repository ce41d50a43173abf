// `rapt verify`: kernels against the oracle, on given problems or on random ones.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <limits>
#include <map>
#include <memory>

#include "cli/arrays/output_file.hpp"
#include "cli/bench/suite.hpp"
#include "cli/program.hpp"
#include "cli/progress.hpp"
#include "cli/terminal.hpp"
#include "src/verify/conformance.hpp"
#include "src/verify/generator.hpp"

namespace rapt::cli {
namespace {

struct VerifyOptions {
  std::vector<std::string> problems;
  std::int64_t cases = 100;
  std::string duration;  // instead of a number of cases
  std::uint64_t seed = 1;
  std::string bits;  // a file
  bool backward = false;
};

struct Count {
  std::int64_t passed = 0, refused = 0, failed = 0;
  verify::Shares shares;
};

class Verification {
 public:
  // `bits`: the file that hashes of results go to; empty: none.
  Verification(const SharedOptions& options, const std::string& bits)
      : device_(options.device()),
        report_(is_standard_stream(bits) ? stderr : stdout),
        config_(options.config()) {
    options.check_kernel_is_for(device_);
    options.check_environment_is_for(device_);
    if (!bits.empty()) bits_ = std::make_unique<OutputFile>(bits);
    for (const KernelInfo& kernel : kernels()) {
      const bool wanted = options.kernel.empty() || kernel.name == options.kernel;
      if (wanted && kernel.backend == device_.backend) counts_[std::string(kernel.name)] = {};
    }
    if (counts_.empty()) {
      throw Error(ErrorCode::not_found,
                  fmt::format("no kernel to verify on {}; `rapt kernels` lists what there is",
                              device_.to_string()));
    }
  }

  void run(const Problem& problem, std::uint64_t seed, Progress& progress) {
    if (!config_.values.empty() && !config_fits(problem)) {
      ++counts_.begin()->second.refused;
      return;
    }
    progress.starts("the oracle", 0);
    verify::Case one(problem, device_, seed);
    for (auto& [kernel, count] : counts_) {
      if (kernel_info(kernel).operation != problem.operation && counts_.size() > 1) continue;
      progress.starts(kernel, 0);
      const verify::Outcome outcome = one.run(kernel, config_.values.empty() ? nullptr : &config_);
      count.passed += outcome.verdict == verify::Verdict::passed;
      count.refused += outcome.verdict == verify::Verdict::refused;
      count.shares.take_larger(outcome.shares);
      if (bits_) write_bits(problem, seed, kernel, outcome);
      if (outcome.verdict != verify::Verdict::failed) continue;
      ++count.failed;
      progress.hide();
      fmt::print(report_, "FAILED {}\n  {}\n  repeat: {}\n", kernel, outcome.sentence,
                 one.command(kernel, outcome.config));
    }
    for (const std::string& feature : verify::features_of(problem)) ++features_[feature];
  }

  std::FILE* report_stream() const { return report_; }
  Backend backend() const { return device_.backend; }

  // The file of hashes is there whole, or not at all.
  void commit() {
    if (bits_) bits_->commit();
  }

  // True if nothing failed. Throws Error if no problem had a run with --config.
  bool report(bool with_features, Operation operation) const {
    const auto ran = [](const auto& each) { return each.second.passed + each.second.failed > 0; };
    if (!misfit_.empty() && std::ranges::none_of(counts_, ran))
      throw Error(ErrorCode::invalid_argument, misfit_);
    const std::optional<std::size_t> width = terminal_width(report_);
    if (with_features) {
      std::string drawn = "drawn:";
      for (const std::string& name : verify::all_features(operation)) {
        const auto found = features_.find(name);
        drawn += fmt::format("{} {} {}", drawn.back() == ':' ? "" : ",", name,
                             found == features_.end() ? 0 : found->second);
      }
      fmt::print(report_, "{}\n", wrapped(drawn, width, 2));
    }
    std::int64_t failed = 0;
    for (const auto& [kernel, count] : counts_) {
      if (count.passed + count.refused + count.failed == 0) continue;
      const auto& [element, row, lse, whole, plain] = count.shares;
      const std::string counts = fmt::format("{:<20} {:>6} passed {:>6} refused {:>6} failed",
                                             kernel, count.passed, count.refused, count.failed);
      const std::string shares = fmt::format(
          "of what is allowed at most: element {:.0f} %, row {:.0f} %, lse {:.0f} %, whole {:.0f} "
          "%, plain {:.0f} %",
          100 * element, 100 * row, 100 * lse, 100 * whole, 100 * plain);
      const bool fits = !width || counts.size() + 3 + shares.size() <= *width;
      fmt::print(report_, "{}{}{}\n", wrapped(counts, width, 4), fits ? "   " : "\n    ",
                 wrapped(shares, width ? std::optional(*width - 4) : width, 4));
      failed += count.failed;
    }
    return failed == 0;
  }

 private:
  // Whether the kernel runs with --config what it takes: random problems leave it more or less
  // choice. Throws Error for a key that it never has.
  bool config_fits(const Problem& problem) {
    const std::string& kernel = counts_.begin()->first;
    const Explanation explanation =
        explain(problem, device_, {.kernel = kernel, .config = config_});
    const auto candidate = std::ranges::find(explanation.candidates, kernel, &Candidate::kernel);
    if (candidate == explanation.candidates.end() || !candidate->refusal.empty() ||
        candidate->chosen)
      return true;
    misfit_ = explanation.reason;
    const std::map<std::string, std::int64_t> own(candidate->config.values.begin(),
                                                  candidate->config.values.end());
    for (const auto& [key, value] : config_.values) {
      if (!own.contains(key)) throw Error(ErrorCode::invalid_argument, misfit_);
    }
    return false;
  }

  void write_bits(const Problem& problem, std::uint64_t seed, const std::string& kernel,
                  const verify::Outcome& outcome) {
    for (const auto& [config, hash] : outcome.bits) {
      const std::string line = fmt::format("{} | {} | {} | {} | {:016x}\n", problem.to_string(),
                                           seed, kernel, config.to_string(), hash);
      bits_->write(line);
    }
  }

  Device device_;
  std::unique_ptr<OutputFile> bits_;
  std::FILE* report_;   // where results are told
  Config config_;       // empty: all that a kernel offers
  std::string misfit_;  // why a problem had no run with that config
  std::map<std::string, Count> counts_;
  std::map<std::string, std::int64_t> features_;
};

// When a soak ends. From "90s", "10m" or "2h"; an empty text is no deadline.
class Deadline {
 public:
  explicit Deadline(const std::string& text) {
    if (text.empty()) return;
    const std::string_view units = "smh";
    const std::size_t unit = units.find(text.back());
    std::int64_t count = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size() - 1, count);
    if (unit == units.npos || error != std::errc() || end != text.data() + text.size() - 1 ||
        count < 1 || count > 10000) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("--for is '{}'; it takes 1 to 10000 seconds, minutes or hours, as in "
                              "90s, 10m or 2h",
                              text));
    }
    constexpr std::int64_t seconds_of_unit[] = {1, 60, 3600};
    seconds_ = count * seconds_of_unit[unit];
  }
  explicit operator bool() const { return seconds_ > 0; }
  bool over() const { return seconds_ > 0 && elapsed() >= seconds_; }
  std::int64_t seconds() const { return seconds_; }
  std::int64_t elapsed() const {
    return std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - start_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
  std::int64_t seconds_ = 0;  // 0: none
};

// What random problems ask for: a kernel that is named has its operation.
Operation operation_of(const SharedOptions& shared, const VerifyOptions& options) {
  const Operation asked = options.backward ? Operation::backward : Operation::forward;
  if (shared.kernel.empty()) return asked;
  const Operation own = kernel_info(shared.kernel).operation;
  if (options.backward && own != asked) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("--backward draws problems of backward, and {} computes {}; name a "
                            "kernel that computes backward, or leave --backward out",
                            shared.kernel, name(own)));
  }
  return own;
}

int verify_all(const SharedOptions& shared, const VerifyOptions& options) {
  require_output_name("--bits", options.bits);
  Verification verification(shared, options.bits);
  const Operation operation = operation_of(shared, options);
  const bool random = options.problems.empty();
  if (random) {
    const Deadline deadline(options.duration);
    const std::int64_t cases = deadline ? std::numeric_limits<std::int64_t>::max() : options.cases;
    Progress progress(deadline ? deadline.seconds() : options.cases);
    std::int64_t drawn = 0;
    for (; drawn < cases && !deadline.over(); ++drawn) {
      const std::uint64_t seed = options.seed + static_cast<std::uint64_t>(drawn);
      const Problem problem = verify::random_problem(seed, verification.backend(), operation);
      if (deadline)
        progress.show(deadline.elapsed(),
                      fmt::format("s, {} problems: {}", drawn, problem.to_string()));
      else
        progress.show(drawn, problem.to_string());
      verification.run(problem, seed, progress);
    }
    progress.hide();
    if (deadline) {
      fmt::print(verification.report_stream(), "{}, seeds from {}\n", counted(drawn, "problem"),
                 options.seed);
    }
  } else {
    const std::vector<std::string> problems = with_whole_problems(options.problems);
    Progress progress(static_cast<std::int64_t>(problems.size()));
    for (std::size_t i = 0; i < problems.size(); ++i) {
      progress.show(static_cast<std::int64_t>(i), problems[i]);
      verification.run(Problem::parse(problems[i]), options.seed, progress);
    }
    progress.hide();
  }
  const bool right = verification.report(random, operation);
  verification.commit();
  return right ? success : failed_check;
}

}  // namespace

void add_verify(CLI::App& app, Session& session) {
  const auto options = std::make_shared<VerifyOptions>();
  CLI::App& command =
      add_command(app, session, "verify",
                  "Check kernels against the fp64 oracle: results, guard zones, unreachable "
                  "memory, repeatability",
                  {.kernel = "Check this kernel only. Default: every kernel of the device",
                   .config = "Check with these values: key=value,key=value. Default: every config "
                             "that the kernel offers"},
                  [&session, options] { return verify_all(session.options, *options); });
  command.get_option("--config")->needs(command.get_option("--kernel"));
  CLI::Option* problems = command
                              .add_option("problems", options->problems,
                                          "Problems to check; without any, random ones are drawn")
                              ->type_name("PROBLEM");
  CLI::Option* cases =
      command.add_option("--cases", options->cases, "How many random problems to draw")
          ->check(in_range<std::int64_t>(1, 1000000000))
          ->capture_default_str()
          ->type_name("N")
          ->excludes(problems);
  command
      .add_option("--for", options->duration,
                  "Draw problems for so long instead, as in 90s, 10m or 2h; give a --seed not "
                  "used before")
      ->type_name("TIME")
      ->excludes(problems)
      ->excludes(cases);
  command.add_option("--seed", options->seed, "Seed of the first case; each random one adds 1")
      ->check(in_range<std::uint64_t>(0, std::numeric_limits<std::uint64_t>::max()))
      ->capture_default_str()
      ->type_name("N");
  command
      .add_flag("--backward", options->backward,
                "Draw problems of backward. Default: of what --kernel computes, else of forward")
      ->excludes(problems);
  command
      .add_option("--bits", options->bits,
                  "Also write a hash of every result's bits: builds that agree write the same "
                  "file. With - to standard output, and the report to standard error")
      ->type_name("FILE");
}

}  // namespace rapt::cli
