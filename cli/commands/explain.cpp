// `rapt explain`: who would take a problem, who refuses and why, and the choice.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/program.hpp"
#include "cli/table.hpp"
#include "cli/terminal.hpp"
#include "src/core/problem_tokens.hpp"
#include "src/core/text.hpp"
#include "src/library/registry.hpp"

namespace rapt::cli {
namespace {

struct ExplainOptions {
  std::vector<std::string> problem;
  bool json = false;
};

// What the estimates of a GPU rest on.
bool are_nominal(const Device& device) {
  const BackendOperations& backend = find_backend(device.backend);
  return backend.estimates_measured && !backend.estimates_measured(device);
}

void print_json(const Explanation& explanation, const Problem& problem, const Device& device) {
  using Json = nlohmann::ordered_json;
  Json candidates = Json::array();
  for (const Candidate& candidate : explanation.candidates) {
    const bool takes = candidate.refusal.empty();
    Json config = Json::object();
    for (const auto& [key, value] : candidate.config.values) config[key] = value;
    candidates.push_back({{"kernel", candidate.kernel},
                          {"chosen", candidate.chosen},
                          {"refusal", takes ? Json() : Json(candidate.refusal)},
                          {"seconds", takes ? Json(candidate.seconds) : Json()},
                          {"bound", takes ? Json(candidate.bound) : Json()},
                          {"workspace_bytes", takes ? Json(candidate.workspace_bytes) : Json()},
                          {"config", takes ? config : Json()}});
  }
  const bool chosen = !explanation.kernel.empty();
  const Json result = {{"problem", explanation.problem},
                       {"device", explanation.device},
                       {"flops", problem.flops()},
                       {"bytes", problem.bytes()},
                       {"kernel", chosen ? Json(explanation.kernel) : Json()},
                       {"reason", explanation.reason},
                       {"nominal", are_nominal(device)},
                       {"candidates", candidates}};
  fmt::print("{}\n", result.dump(2));
}

std::string remarks(const Candidate& candidate) {
  std::string config = candidate.config.to_string();
  if (!kernel_info(candidate.kernel).by_name_only) return config;
  return config.empty() ? "by name only" : config + ", by name only";
}

void print_table(const Explanation& explanation, const Problem& problem, const Device& device) {
  const std::optional<std::size_t> width = terminal_width(stdout);
  const std::string heading = fmt::format("{} on {}", explanation.problem, explanation.device);
  fmt::print("{}\nat least {} and {} of memory traffic\n\n", wrapped(heading, width, 4),
             human_quantity(problem.flops(), "flop"), human_bytes(problem.bytes()));
  Table table;
  table.column("  kernel");
  table.column("estimate", Align::right);
  table.column("bound");
  table.column("workspace", Align::right);
  table.column("config or refusal");
  for (const Candidate& candidate : explanation.candidates) {
    const std::string kernel = fmt::format("{} {}", candidate.chosen ? '*' : ' ', candidate.kernel);
    if (candidate.refusal.empty()) {
      table.row({kernel, human_seconds(candidate.seconds), std::string(candidate.bound),
                 human_bytes(static_cast<double>(candidate.workspace_bytes)), remarks(candidate)});
    } else {
      table.row({kernel, "-", "-", "-", "refuses: " + candidate.refusal});
    }
  }
  fmt::print("{}", table.to_string(width));
  if (!explanation.kernel.empty())
    fmt::print("\nchosen: {} ({})\n", explanation.kernel, explanation.reason);
  if (are_nominal(device))
    fmt::print("nominal estimates: nothing was measured on {}\n", device.features);
}

// Tokens that can be read alone and not together are those of several.
Problem one_problem(const std::vector<std::string>& arguments) {
  const std::string problem = fmt::format("{}", fmt::join(arguments, " "));
  if (!reads_as_problem_tokens(problem) &&
      std::ranges::all_of(arguments, reads_as_problem_tokens)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("explain takes one problem, and \"{}\" has tokens of several; ask "
                            "about one after another",
                            problem));
  }
  return Problem::parse(problem);
}

int run_explain(const ExplainOptions& options, const SharedOptions& shared) {
  const Problem problem = one_problem(options.problem);
  const Device device = shared.device_or_chip();
  const Explanation explanation = explain(problem, device, shared.plan_options());
  for (const std::string& warning : explanation.warnings) print_warning(warning);
  const bool nobody = explanation.kernel.empty();
  // What cannot be had as asked is an error; where nobody takes the problem, each says why first.
  const bool asked = !shared.kernel.empty() || !shared.config_text.empty();
  if (nobody && asked) throw Error(ErrorCode::unsupported, explanation.reason);
  options.json ? print_json(explanation, problem, device)
               : print_table(explanation, problem, device);
  if (nobody) throw Error(ErrorCode::unsupported, explanation.reason);
  return success;
}

}  // namespace

void add_explain(CLI::App& app, Session& session) {
  const auto options = std::make_shared<ExplainOptions>();
  CLI::App& command = add_command(
      app, session, "explain",
      "Say who would take a problem on a device: every kernel with its estimate or the "
      "reason it refuses, and the choice (marked *).",
      {.kernel = "What naming this kernel gives. Default: RAPT_KERNEL, else rapt's choice"},
      [options, &session] { return run_explain(*options, session.options); });
  command
      .add_option("problem", options->problem,
                  "The problem, e.g. b2 h32/8 q1 kv8192 d128 bf16 causal page16")
      ->required()
      ->type_name("PROBLEM");
  command.add_flag("--json", options->json, "Print the explanation as JSON");
  command.footer(fmt::format("--device also takes a chip or an architecture by name; {}.",
                             known_chips_sentence()));
}

}  // namespace rapt::cli
