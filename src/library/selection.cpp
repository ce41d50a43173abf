#include "src/library/selection.hpp"

#include <algorithm>
#include <limits>

#include "src/core/environment.hpp"
#include "src/core/fault.hpp"
#include "src/core/text.hpp"
#include "src/cpu/thread_pool.hpp"
#include "src/library/registry.hpp"
#include "src/library/tuning.hpp"

namespace rapt {
namespace {

// A device is plain data, and kernels divide their work by its threads or multiprocessors.
void check(const Device& device) {
  if (device.backend == Backend::cpu) {
    check_threads(device.threads);
  } else if (device.multiprocessors < 1) {
    fault("the device ", device.to_string(), " has ", device.multiprocessors,
          " multiprocessors; a GPU has 1 or more: take it from Device::parse() or devices()");
  }
}

// Whose bits must not depend on the batch is chosen for by what a row of it has of its own: head
// dims, types, features; its lengths too, unless those are bounds, which other sequences set. The
// batch is taken for one that fills the device and shares what it may: a batch of one cannot tell.
// Whose bits must not depend on other queries and keys either is chosen for without its lengths.
Problem as_in_any_batch(const Problem& problem) {
  constexpr std::int64_t batch = 64, queries = 256, keys = 4096;
  Problem p = problem;
  p.batch = batch;
  if (p.bounded() || p.row_invariant) {
    p.q_len = queries;
    p.kv_len = keys;
  }
  p.total_q = p.batch * p.q_len;
  p.total_kv = p.batch * p.kv_len;
  for (ScoreTensor* tensor : {&p.bias, &p.mask}) {
    tensor->varies[0] = false;
    tensor->stride[0] = 0;
    if (!p.row_invariant) continue;
    tensor->varies = {};
    tensor->stride = {};
  }
  p.alibi_per_sequence = false;
  if (p.row_invariant) {
    p.window = {};
    p.offset = {};
    p.page_size = 0;
  }
  return p;
}

// What is asked of kernels.
struct Question {
  const Problem& problem;
  const Device& device;
  std::optional<std::size_t> workspace_limit;

  // What a run would take, by which kernels are compared.
  Estimate estimate(const Kernel& kernel, const Config& config) const {
    const auto of = [&](const Problem& p) { return kernel.estimate({p, device, config, nullptr}); };
    return problem.batch_invariant ? of(as_in_any_batch(problem)) : of(problem);
  }
};

std::size_t workspace_of(const Kernel& kernel, const Question& question, const Config& config) {
  return kernel.workspace({question.problem, question.device, config, nullptr});
}

// Where the kernel takes the problem: its configs that keep to the workspace limit, best guess
// first.
std::vector<Config> configs_of(const Kernel& kernel, const Question& question) {
  std::vector<Config> configs = kernel.configs(question.problem, question.device);
  if (question.workspace_limit) {
    std::erase_if(configs, [&](const Config& config) {
      return workspace_of(kernel, question, config) > *question.workspace_limit;
    });
  }
  return configs;
}

std::string over_limit(std::size_t bytes, std::size_t limit) {
  return text(bytes, " bytes of workspace, and the limit is ", limit,
              ": raise PlanOptions::workspace_limit");
}

Support support_of(const Kernel& kernel, const Question& question) {
  Support support = rapt::support_of(kernel, question.problem, question.device);
  if (!support || !question.workspace_limit || !configs_of(kernel, question).empty())
    return support;
  std::size_t least = std::numeric_limits<std::size_t>::max();
  for (const Config& config : kernel.configs(question.problem, question.device))
    least = std::min(least, workspace_of(kernel, question, config));
  return Support::no(text("it needs ", over_limit(least, *question.workspace_limit)));
}

// `chosen`: the config of a kernel that is chosen already; null: its best guess.
Candidate judge(const Kernel& kernel, const Question& question, const Config* chosen = nullptr) {
  Candidate candidate;
  candidate.kernel = kernel.name;
  const Support support = support_of(kernel, question);
  candidate.refusal = support.refusal;
  if (!support) return candidate;
  candidate.chosen = chosen != nullptr;
  candidate.configs = configs_of(kernel, question);
  candidate.config = chosen ? *chosen : candidate.configs.front();
  const Task task = {question.problem, question.device, candidate.config, nullptr};
  const Estimate estimate = kernel.estimate(task);
  candidate.seconds = estimate.seconds;
  candidate.bound = estimate.bound;
  candidate.workspace_bytes = kernel.workspace(task);
  return candidate;
}

bool contains(const std::vector<Config>& configs, const Config& config) {
  return std::ranges::find(configs, config) != configs.end();
}

// A kernel that takes the problem, and its configs as configs_of() gives them.
struct Choice {
  const Kernel* kernel = nullptr;
  std::vector<Config> configs;
};

// The kernel's best guess with the caller's values in place of its own. The result must be one of
// the kernel's candidates: those are what it was built for.
Config configure(const Choice& choice, const Question& question, const Config& given) {
  const Kernel& kernel = *choice.kernel;
  const std::vector<Config>& candidates = choice.configs;
  Config config = candidates.front();
  for (const auto& [key, value] : given.values) {
    const auto own =
        std::ranges::find(config.values, key, [](const auto& pair) { return pair.first; });
    if (own == config.values.end()) {
      fault(kernel.name, " has no config key '", key, "'; ",
            config.values.empty() ? "it has none" : text("its config is ", config.to_string()));
    }
    own->second = value;
  }
  if (given.values.empty() || contains(candidates, config)) return config;
  std::string why;
  if (contains(kernel.configs(question.problem, question.device), config)) {
    why = text(", which needs ",
               over_limit(workspace_of(kernel, question, config), *question.workspace_limit));
  }
  std::string known;
  for (const Config& candidate : candidates)
    known += text(known.empty() ? "" : " or ", candidate.to_string());
  fault(kernel.name, " cannot run with ", config.to_string(), why, "; it can with ", known);
}

bool may_be_chosen(const Kernel& kernel, const Question& question) {
  return kernel.backend == question.device.backend &&
         kernel.operation == question.problem.operation && !kernel.by_name_only;
}

// No kernel: nobody takes the problem.
Choice least_estimate(const Question& question) {
  Choice best;
  double least = 0;
  for (const Kernel* kernel : registered_kernels()) {
    if (!may_be_chosen(*kernel, question) || !support_of(*kernel, question)) continue;
    std::vector<Config> configs = configs_of(*kernel, question);
    const double seconds = question.estimate(*kernel, configs.front()).seconds;
    if (best.kernel && seconds >= least) continue;
    best = {kernel, std::move(configs)};
    least = seconds;
  }
  return best;
}

// Of every kernel; what several say is said once.
std::string refusals(const Question& question) {
  std::vector<std::pair<std::string, std::string>> said;  // kernels, sentence
  for (const Kernel* kernel : registered_kernels()) {
    if (!may_be_chosen(*kernel, question)) continue;
    const std::string refusal = support_of(*kernel, question).refusal;
    const auto same =
        std::ranges::find(said, refusal, [](const auto& pair) { return pair.second; });
    if (same == said.end())
      said.emplace_back(kernel->name, refusal);
    else
      same->first += text(", ", kernel->name);
  }
  if (said.empty()) return text("; this build has no ", name(question.device.backend), " kernels");
  std::string result;
  for (const auto& [kernels, refusal] : said) result += text("; ", kernels, ": ", refusal);
  return result;
}

// Why this build cannot obey a winner; empty: it can.
std::string staleness(const TunedWinner& winner, const Problem& problem, const Device& device) {
  const std::span<const Kernel* const> all = registered_kernels();
  const auto found = std::ranges::find(all, winner.kernel, &Kernel::name);
  if (found == all.end()) return text("there is no kernel '", winner.kernel, "'");
  const Kernel& kernel = **found;
  if (!may_be_chosen(kernel, {problem, device, {}})) {
    return text(kernel.name, " is never chosen on ", device.to_string());
  }
  const Support support = rapt::support_of(kernel, problem, device);
  if (!support) return text(kernel.name, " refuses: ", support.refusal);
  if (contains(kernel.configs(problem, device), winner.config)) return "";
  return text(kernel.name, " does not run with ",
              winner.config.values.empty() ? "no config" : winner.config.to_string());
}

// What the tuning file says, less what this build cannot obey and what the workspace limit forbids.
Tuning obeyable_tuning(const Question& question) {
  // It has winners for some batches, and bits would depend on which.
  if (question.problem.batch_invariant) return {};
  Tuning tuning = tuning_for(question.problem, question.device);
  if (!tuning.winner) return tuning;
  const std::string why = staleness(*tuning.winner, question.problem, question.device);
  if (!why.empty()) {
    tuning.warnings.push_back(stale_winner(question.problem, tuning.file, why));
    tuning.winner.reset();
  } else if (question.workspace_limit) {
    const std::size_t bytes =
        workspace_of(find_kernel(tuning.winner->kernel), question, tuning.winner->config);
    if (bytes > *question.workspace_limit) {
      tuning.warnings.push_back(text("the winner for '", question.problem.to_string(), "' in ",
                                     tuning.file, " is passed over: it needs ",
                                     over_limit(bytes, *question.workspace_limit)));
      tuning.winner.reset();
    }
  }
  return tuning;
}

// Where nobody names a kernel.
Choice choose(const Question& question, const Tuning& tuning) {
  if (tuning.winner) {
    const Kernel& kernel = find_kernel(tuning.winner->kernel);
    return {&kernel, configs_of(kernel, question)};
  }
  if (Choice choice = least_estimate(question); choice.kernel) return choice;
  throw Error(ErrorCode::unsupported, text("no kernel on ", question.device.to_string(), " takes '",
                                           question.problem.to_string(), "'", refusals(question)));
}

constexpr std::string_view by_environment = "named by RAPT_KERNEL";

void check_backend(const Kernel& kernel, std::string_view reason, const Device& device) {
  if (kernel.backend == device.backend) return;
  throw Error(ErrorCode::unsupported, text(kernel.name, " (", reason, ") runs on ",
                                           name(kernel.backend), ", not on ", device.to_string()));
}

// If it can be had.
Choice take(const Kernel& kernel, std::string_view reason, const Question& question) {
  check_backend(kernel, reason, question.device);
  if (kernel.operation != question.problem.operation) {
    throw Error(ErrorCode::unsupported,
                text(kernel.name, " (", reason, ") computes ", name(kernel.operation),
                     "; the problem is ", name(question.problem.operation)));
  }
  const Support support = support_of(kernel, question);
  if (!support) {
    throw Error(ErrorCode::unsupported, text(kernel.name, " (", reason, ") refuses '",
                                             question.problem.to_string(), "': ", support.refusal));
  }
  return {&kernel, configs_of(kernel, question)};
}

// Null: none is named.
const Kernel* kernel_of_environment() {
  const std::string kernel = environment_text("RAPT_KERNEL");
  if (kernel.empty()) return nullptr;
  try {
    return &find_kernel(kernel);
  } catch (const Error& error) {
    throw Error(error.code(), text("RAPT_KERNEL is wrong: ", error.what()));
  }
}

// One variable serves a program that computes both operations: it names a kernel of one.
const Kernel* kernel_of_environment(const Problem& problem) {
  const Kernel* kernel = kernel_of_environment();
  return kernel && kernel->operation == problem.operation ? kernel : nullptr;
}

}  // namespace

void check_environment(const Device& device) {
  if (const Kernel* kernel = kernel_of_environment())
    check_backend(*kernel, by_environment, device);
}

Selection select(const Problem& problem, const Device& device, const PlanOptions& options) {
  check(device);
  const Question question = {problem, device, options.workspace_limit};
  const bool by_caller = !options.kernel.empty();
  const Kernel* wanted = by_caller ? &find_kernel(options.kernel) : kernel_of_environment(problem);
  Tuning tuning = obeyable_tuning(question);
  std::string reason =
      !wanted     ? problem.batch_invariant ? "least estimate for any batch" : "least estimate"
      : by_caller ? "named by the caller"
                  : std::string(by_environment);
  const Choice choice = wanted ? take(*wanted, reason, question) : choose(question, tuning);
  const Config* values = &options.config;
  if (tuning.winner && tuning.winner->kernel == choice.kernel->name) {
    const bool own_config = !options.config.values.empty();
    if (!own_config) values = &tuning.winner->config;
    const std::string measured =
        text("tuned: ", human_seconds(tuning.winner->seconds), " measured, ", tuning.file);
    if (!wanted) {
      reason = own_config ? text("tuned: ", tuning.file, "; config of the caller") : measured;
    } else if (!own_config) {
      reason += text("; config ", measured);
    }
  }
  return {choice.kernel, configure(choice, question, *values), reason, std::move(tuning.warnings)};
}

Explanation explain(const Problem& problem, const Device& device, const PlanOptions& options) {
  problem.validate();
  check(device);
  Explanation result;
  result.problem = problem.to_string();
  result.device = device.to_string();
  std::optional<Selection> selection;
  try {
    selection = select(problem, device, options);
    result.kernel = selection->kernel->name;
    result.reason = selection->reason;
    result.warnings = selection->warnings;
  } catch (const Error& error) {
    result.reason = error.what();
  }
  const Question question = {problem, device, options.workspace_limit};
  if (const Choice least = least_estimate(question); least.kernel)
    result.least_estimate = least.kernel->name;
  for (const Kernel* kernel : registered_kernels()) {
    if (kernel->backend != device.backend || kernel->operation != problem.operation) continue;
    const bool chosen = selection && selection->kernel == kernel;
    result.candidates.push_back(judge(*kernel, question, chosen ? &selection->config : nullptr));
  }
  return result;
}

std::string Explanation::to_string() const {
  std::string result = text(problem, " on ", device, "\n");
  for (const Candidate& candidate : candidates) {
    result += text(candidate.chosen ? "* " : "  ", candidate.kernel, ": ");
    if (candidate.refusal.empty()) {
      const std::string config = candidate.config.to_string();
      result += text("about ", human_seconds(candidate.seconds), ", bound by ", candidate.bound,
                     ", ", human_bytes(double(candidate.workspace_bytes)), " of workspace",
                     config.empty() ? "" : text(", ", config), "\n");
    } else {
      result += text("refuses: ", candidate.refusal, "\n");
    }
  }
  result += text(kernel.empty() ? reason : text("chosen: ", kernel, " (", reason, ")"), "\n");
  for (const std::string& warning : warnings) result += text("warning: ", warning, "\n");
  return result;
}

}  // namespace rapt
