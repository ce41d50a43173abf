#include "src/library/selection.hpp"

#include <algorithm>

#include "src/core/environment.hpp"
#include "src/core/fault.hpp"
#include "src/core/text.hpp"
#include "src/library/registry.hpp"

namespace rapt {
namespace {

// `chosen`: the config of a kernel that is chosen already; null: its best guess.
Candidate judge(const Kernel& kernel, const Problem& problem, const Device& device,
                const Config* chosen = nullptr) {
  Candidate candidate;
  candidate.kernel = kernel.name;
  const Support support = kernel.supports(problem, device);
  candidate.refusal = support.refusal;
  if (!support) return candidate;
  candidate.chosen = chosen != nullptr;
  candidate.config = chosen ? *chosen : kernel.configs(problem, device).front();
  const Task task = {problem, device, candidate.config, nullptr};
  const Estimate estimate = kernel.estimate(task);
  candidate.seconds = estimate.seconds;
  candidate.bound = estimate.bound;
  candidate.workspace_bytes = kernel.workspace(task);
  return candidate;
}

// The kernel's best guess with the caller's values in place of its own. The result must be one of
// the kernel's candidates: those are what it was built for.
Config configure(const Kernel& kernel, const Problem& problem, const Device& device,
                 const Config& given) {
  const std::vector<Config> candidates = kernel.configs(problem, device);
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
  if (std::ranges::find(candidates, config) == candidates.end()) {
    std::string known;
    for (const Config& candidate : candidates) {
      known += text(known.empty() ? "" : " or ", candidate.to_string());
    }
    fault(kernel.name, " cannot run with ", config.to_string(), "; it can with ", known);
  }
  return config;
}

const Kernel* least_estimate(const Problem& problem, const Device& device) {
  const Kernel* best = nullptr;
  double least = 0;
  for (const Kernel* kernel : registered_kernels()) {
    if (kernel->backend != device.backend || kernel->by_name_only) continue;
    const Candidate candidate = judge(*kernel, problem, device);
    if (candidate.refusal.empty() && (!best || candidate.seconds < least)) {
      best = kernel;
      least = candidate.seconds;
    }
  }
  return best;
}

std::string refusals(const Problem& problem, const Device& device) {
  std::string result;
  for (const Kernel* kernel : registered_kernels()) {
    if (kernel->backend != device.backend || kernel->by_name_only) continue;
    result += text("; ", kernel->name, ": ", kernel->supports(problem, device).refusal);
  }
  return result.empty() ? text("; this build has no ", name(device.backend), " kernels") : result;
}

}  // namespace

Selection select(const Problem& problem, const Device& device, std::string_view named,
                 const Config& config) {
  const std::string from_environment = named.empty() ? environment_text("RAPT_KERNEL") : "";
  const std::string_view wanted = named.empty() ? std::string_view(from_environment) : named;
  if (wanted.empty()) {
    const Kernel* kernel = least_estimate(problem, device);
    if (!kernel) {
      throw Error(ErrorCode::unsupported,
                  text("no kernel on ", device.to_string(), " takes '", problem.to_string(), "'",
                       refusals(problem, device)));
    }
    return {kernel, configure(*kernel, problem, device, config), "least estimate"};
  }
  const std::string reason = named.empty() ? "named by RAPT_KERNEL" : "named by the caller";
  const Kernel& kernel = find_kernel(wanted);
  if (kernel.backend != device.backend) {
    throw Error(ErrorCode::unsupported,
                text(kernel.name, " (", reason, ") runs on ", name(kernel.backend),
                     "; the plan is for ", device.to_string()));
  }
  const Support support = kernel.supports(problem, device);
  if (!support) {
    throw Error(ErrorCode::unsupported, text(kernel.name, " (", reason, ") refuses '",
                                             problem.to_string(), "': ", support.refusal));
  }
  return {&kernel, configure(kernel, problem, device, config), reason};
}

Explanation explain(const Problem& problem, const Device& device, const PlanOptions& options) {
  problem.validate();
  Explanation result;
  result.problem = problem.to_string();
  result.device = device.to_string();
  std::optional<Selection> selection;
  try {
    selection = select(problem, device, options.kernel, options.config);
    result.kernel = selection->kernel->name;
    result.reason = selection->reason;
  } catch (const Error& error) {
    result.reason = error.what();
  }
  for (const Kernel* kernel : registered_kernels()) {
    if (kernel->backend != device.backend) continue;
    const bool chosen = selection && selection->kernel == kernel;
    result.candidates.push_back(
        judge(*kernel, problem, device, chosen ? &selection->config : nullptr));
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
  return result + (kernel.empty() ? reason : text("chosen: ", kernel, " (", reason, ")")) + "\n";
}

}  // namespace rapt
