// `rapt verify`: kernels against the oracle, on given problems or on random ones.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <limits>
#include <map>
#include <memory>

#include "cli/arrays/output_file.hpp"
#include "cli/program.hpp"
#include "cli/progress.hpp"
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

Operation operation_of(std::string_view kernel) {
  for (const KernelInfo& info : kernels()) {
    if (info.name == kernel) return info.operation;
  }
  return Operation::forward;
}

class Verification {
 public:
  // `bits`: the file that hashes of results go to; empty: none.
  Verification(const SharedOptions& options, const std::string& bits)
      : device_(options.device()), config_(options.config()) {
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
    verify::Case one(problem, device_, seed);
    for (auto& [kernel, count] : counts_) {
      if (operation_of(kernel) != problem.operation && counts_.size() > 1) continue;
      const verify::Outcome outcome = one.run(kernel, config_.values.empty() ? nullptr : &config_);
      count.passed += outcome.verdict == verify::Verdict::passed;
      count.refused += outcome.verdict == verify::Verdict::refused;
      count.shares.take_larger(outcome.shares);
      if (bits_) write_bits(problem, seed, kernel, outcome);
      if (outcome.verdict != verify::Verdict::failed) continue;
      ++count.failed;
      progress.hide();
      fmt::print("FAILED {}\n  {}\n  repeat: {}\n", kernel, outcome.sentence,
                 one.command(kernel, outcome.config));
    }
    for (const std::string& feature : verify::features_of(problem)) ++features_[feature];
  }

  Backend backend() const { return device_.backend; }

  // The file of hashes is there whole, or not at all.
  void commit() {
    if (bits_) bits_->commit();
  }

  // True if nothing failed.
  bool report(bool with_features, Operation operation) const {
    if (with_features) {
      fmt::print("drawn:");
      const std::vector<std::string> all = verify::all_features(operation);
      for (const std::string& name : all) {
        const auto found = features_.find(name);
        fmt::print(" {} {}{}", name, found == features_.end() ? 0 : found->second,
                   name == all.back() ? "\n" : ",");
      }
    }
    std::int64_t failed = 0;
    for (const auto& [kernel, count] : counts_) {
      if (count.passed + count.refused + count.failed == 0) continue;
      const auto& [element, row, lse, whole, plain] = count.shares;
      fmt::print(
          "{:<20} {:>6} passed {:>6} refused {:>6} failed   of what is allowed at most: element "
          "{:.0f} %, row {:.0f} %, lse {:.0f} %, whole {:.0f} %, plain {:.0f} %\n",
          kernel, count.passed, count.refused, count.failed, 100 * element, 100 * row, 100 * lse,
          100 * whole, 100 * plain);
      failed += count.failed;
    }
    return failed == 0;
  }

 private:
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
  Config config_;  // empty: all that a kernel offers
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

int verify_all(const SharedOptions& shared, const VerifyOptions& options) {
  Verification verification(shared, options.bits);
  const Operation operation = options.backward ? Operation::backward : Operation::forward;
  if (options.problems.empty()) {
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
    if (deadline) fmt::print("{} problems, seeds from {}\n", drawn, options.seed);
    verification.commit();
    return verification.report(true, operation) ? success : failed_check;
  }
  Progress progress(static_cast<std::int64_t>(options.problems.size()));
  for (std::size_t i = 0; i < options.problems.size(); ++i) {
    progress.show(static_cast<std::int64_t>(i), options.problems[i]);
    verification.run(Problem::parse(options.problems[i]), options.seed, progress);
  }
  progress.hide();
  verification.commit();
  return verification.report(false, operation) ? success : failed_check;
}

}  // namespace

void add_verify(CLI::App& app, Session& session) {
  const auto options = std::make_shared<VerifyOptions>();
  CLI::App& command =
      add_command(app, session, "verify",
                  "Check kernels against the fp64 oracle: results, guard zones, unreachable "
                  "memory, repeatability",
                  [&session, options] { return verify_all(session.options, *options); });
  command.add_option("problems", options->problems,
                     "problems to check; without any, random ones are drawn");
  command.add_option("--cases", options->cases, "how many random problems to draw")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      .add_option("--for", options->duration,
                  "draw problems for so long instead, as in 90s, 10m or 2h; give a --seed not "
                  "used before")
      ->type_name("TIME");
  command.add_option("--seed", options->seed, "seed of the first case; each next one adds 1")
      ->capture_default_str();
  command.add_flag("--backward", options->backward, "draw problems of backward");
  command
      .add_option("--bits", options->bits,
                  "also write a hash of every result's bits: builds that agree write the same file")
      ->type_name("FILE");
}

}  // namespace rapt::cli
