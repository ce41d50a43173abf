#include "src/verify/conformance.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include "src/core/call.hpp"
#include "src/library/registry.hpp"
#include "src/verify/generator.hpp"

namespace rapt::verify {

using semantics::Index;

namespace {

constexpr std::int64_t most_rows = 4000;

class Failure : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Bytes of a memory that belong to a result: (offset, bytes) of each row.
using Places = std::vector<std::pair<std::size_t, std::size_t>>;

bool written_outside(const std::vector<std::byte>& memory, const Places& places) {
  std::vector<bool> ours(memory.size());
  for (const auto& [offset, bytes] : places) {
    std::fill_n(ours.begin() + static_cast<std::ptrdiff_t>(offset), bytes, true);
  }
  for (std::size_t i = 0; i < memory.size(); ++i) {
    if (!ours[i] && memory[i] != std::byte{0xff}) return true;
  }
  return false;
}

// Still the NaN that outputs start from, in rows that may lie outside the sample compared.
bool left_unwritten(const std::vector<std::byte>& memory, const Places& places,
                    std::size_t element) {
  for (const auto& [offset, bytes] : places) {
    for (std::size_t at = offset; at < offset + bytes; at += element) {
      const auto first = memory.begin() + static_cast<std::ptrdiff_t>(at);
      const auto last = first + static_cast<std::ptrdiff_t>(element);
      if (std::all_of(first, last, [](std::byte byte) { return byte == std::byte{0xff}; }))
        return true;
    }
  }
  return false;
}

// FNV-1a.
std::uint64_t hash_of(const std::vector<std::byte>& out, const std::vector<std::byte>& lse) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const std::vector<std::byte>* memory : {&out, &lse}) {
    for (const std::byte byte : *memory)
      hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3u;
  }
  return hash;
}

}  // namespace

// Guards and padding between rows belong to nobody; so do packed rows outside every sequence.
std::string misplaced_write(const Data& data, const std::vector<std::byte>& out,
                            const std::vector<std::byte>& lse) {
  const semantics::Call call = make_call(data.problem(), data.on_host());
  const auto element = static_cast<std::size_t>(size_in_bytes(data.problem().out_dtype));
  Places out_rows, lse_places;
  for (Index b = 0; b < call.batch; ++b) {
    const semantics::Sequence sequence = semantics::sequence(call, b);
    for (Index i = 0; i < sequence.q_len; ++i) {
      const semantics::Place place = semantics::query_place(call, sequence, i);
      for (Index head = 0; head < call.heads; ++head) {
        const auto row =
            static_cast<std::size_t>(semantics::row_offset(call.out_stride, place, head));
        out_rows.emplace_back(data.out().front() + row * element,
                              static_cast<std::size_t>(call.v_dim) * element);
        if (!data.lse()) continue;
        const auto at = static_cast<std::size_t>(semantics::lse_offset(call, place, head));
        lse_places.emplace_back(data.lse()->front() + at * sizeof(float), sizeof(float));
      }
    }
  }
  if (written_outside(out, out_rows)) return "it wrote outside the rows of out";
  if (left_unwritten(out, out_rows, element)) return "it left an element of out unwritten";
  if (written_outside(lse, lse_places)) return "it wrote outside lse";
  if (left_unwritten(lse, lse_places, sizeof(float))) return "it left an element of lse unwritten";
  return "";
}

Case::Batch::Batch(const Problem& problem, const Device& device, std::uint64_t seed)
    : data(problem, device, seed, Fill::hostile), reference(data, most_rows, seed) {}

Case::Case(const Problem& problem, const Device& device, std::uint64_t seed)
    : problem_(problem), device_(device), seed_(seed), whole_(problem, device, seed) {
  if (problem.bounded()) less_.emplace(problem_within(problem, seed), device, seed);
}

std::string Case::command(std::string_view kernel, const Config& config) const {
  std::string more =
      device_.backend == Backend::cpu ? fmt::format(" --threads {}", device_.threads) : "";
  if (!config.values.empty()) more += fmt::format(" --config {}", config.to_string());
  return fmt::format("rapt verify \"{}\" --device {} --kernel {} --seed {}{}", problem_.to_string(),
                     device_.to_string(), kernel, seed_, more);
}

// Uploads everything anew, so that each run starts from poisoned outputs and workspace.
Case::Result Case::run_once(const Plan& plan, Data& data, const Arguments& arguments) {
  data.upload();
  Guarded workspace(plan.device(), plan.workspace_bytes(), workspace_alignment, true);
  workspace.upload();
  plan.run(arguments, {.workspace = {workspace.on_device(), plan.workspace_bytes()}});
  find_backend(plan.device().backend).wait(plan.device(), nullptr);
  if (!workspace.guards_unchanged()) throw Failure("it wrote outside its workspace");
  return {data.out().download(), data.lse() ? data.lse()->download() : std::vector<std::byte>()};
}

Case::Result Case::run_checked(const Plan& plan, Batch& batch, Outcome& outcome) {
  const Result result = run_once(plan, batch.data, batch.data.on_device());
  const auto require = [](const std::string& fault) {
    if (!fault.empty()) throw Failure(fault);
  };
  const std::string input = batch.data.changed_input();
  require(input.empty() ? "" : fmt::format("it changed its input {}", input));
  const Comparison comparison = batch.reference.compare(result.out, result.lse);
  outcome.shares.take_larger(comparison.shares);
  require(comparison.fault);
  require(misplaced_write(batch.data, result.out, result.lse));
  return result;
}

// Runs each sequence as a batch of one into the same memory and compares it all with the whole
// batch's result.
std::string Case::differs_alone(const PlanOptions& options, const Result& whole) {
  for (std::int64_t b = 0; b < problem_.batch; ++b) {
    const Arguments alone = one_sequence(problem_, whole_.data.on_device(), b);
    const Plan plan(Problem::of(alone, options_of(problem_)), device_, options);
    const Result result = run_once(plan, whole_.data, alone);
    const auto differs = [](const std::vector<std::byte>& one, const std::vector<std::byte>& all) {
      // What this sequence did not write is still poison.
      for (std::size_t i = 0; i < one.size(); ++i) {
        if (one[i] != std::byte{0xff} && one[i] != all[i]) return true;
      }
      return false;
    };
    if (differs(result.out, whole.out) || differs(result.lse, whole.lse)) {
      return fmt::format("sequence {} alone gives other bits than in its batch", b);
    }
  }
  return "";
}

Outcome Case::run(std::string_view kernel, const Config* config) {
  const Kernel& registered = find_kernel(kernel);
  const Support support = registered.supports(problem_, device_);
  if (!support) return {Verdict::refused, support.refusal, {}, {}, {}};
  if (config) return run_config(kernel, *config);
  Outcome all;
  for (const Config& candidate : registered.configs(problem_, device_)) {
    Outcome outcome = run_config(kernel, candidate);
    if (outcome.verdict == Verdict::failed) return outcome;
    all.bits.insert(all.bits.end(), outcome.bits.begin(), outcome.bits.end());
    all.shares.take_larger(outcome.shares);
    all.config = candidate;
  }
  return all;
}

Outcome Case::run_config(std::string_view kernel, const Config& config) {
  Outcome outcome;
  outcome.config = config;
  const PlanOptions options = {.kernel = kernel, .config = config};
  const auto require = [](const std::string& fault) {
    if (!fault.empty()) throw Failure(fault);
  };
  try {
    const Plan plan(problem_, device_, options);
    const Result result = run_checked(plan, whole_, outcome);
    outcome.bits = {{config, hash_of(result.out, result.lse)}};

    Device other = device_;
    if (device_.backend == Backend::cpu) other = Device::cpu(device_.threads == 1 ? 3 : 1);
    const Result again =
        run_once(Plan(problem_, other, options), whole_.data, whole_.data.on_device());
    require(again == result ? "" : "a second run gives other bits");
    if (problem_.batch_invariant) require(differs_alone(options, result));
    if (less_) {
      Outcome of_less;
      try {
        run_checked(plan, *less_, of_less);
      } catch (const std::exception& error) {
        throw Failure(fmt::format("with a batch as '{}' would have: {}",
                                  less_->data.problem().to_string(), error.what()));
      }
    }
  } catch (const std::exception& error) {
    outcome.verdict = Verdict::failed;
    outcome.sentence = error.what();
  }
  return outcome;
}

}  // namespace rapt::verify
