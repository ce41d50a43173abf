#include "src/verify/conformance.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include "src/core/call.hpp"
#include "src/library/registry.hpp"

namespace rapt::verify {

using semantics::Index;

namespace {

constexpr std::size_t workspace_alignment = 64;
constexpr std::int64_t most_rows = 4000;

class Failure : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Marks the bytes of `memory` that belong to a result: `place` calls its argument with (offset,
// bytes) of each.
template <class Places>
bool only_written_there(const std::vector<std::byte>& memory, Places&& places) {
  std::vector<bool> written(memory.size());
  places([&](std::size_t offset, std::size_t bytes) {
    std::fill_n(written.begin() + static_cast<std::ptrdiff_t>(offset), bytes, true);
  });
  for (std::size_t i = 0; i < memory.size(); ++i) {
    if (!written[i] && memory[i] != std::byte{0xff}) return false;
  }
  return true;
}

}  // namespace

Case::Case(const Problem& problem, const Device& device, std::uint64_t seed)
    : problem_(problem),
      device_(device),
      seed_(seed),
      data_(problem, device, seed, Fill::hostile),
      reference_(data_, most_rows, seed) {}

std::string Case::command(std::string_view kernel) const {
  const std::string threads =
      device_.backend == Backend::cpu ? fmt::format(" --threads {}", device_.threads) : "";
  return fmt::format("rapt verify \"{}\" --device {} --kernel {} --seed {}{}", problem_.to_string(),
                     device_.to_string(), kernel, seed_, threads);
}

// Uploads everything anew, so that each run starts from poisoned outputs and workspace.
Case::Result Case::run_once(const Plan& plan, const Arguments& arguments) {
  data_.upload();
  Guarded workspace(plan.device(), plan.workspace_bytes(), workspace_alignment, true);
  workspace.upload();
  plan.run(arguments, {.workspace = {workspace.on_device(), plan.workspace_bytes()}});
  find_backend(plan.device().backend).wait(plan.device(), nullptr);
  const std::vector<std::byte> memory = workspace.download();
  const bool guards_intact =
      only_written_there(memory, [&](auto&& mark) { mark(workspace.front(), workspace.size()); });
  if (!guards_intact) throw Failure("it wrote outside its workspace");
  return {data_.out().download(), data_.lse() ? data_.lse()->download() : std::vector<std::byte>()};
}

// Guards and padding between rows belong to nobody; so do packed rows outside every sequence.
std::string Case::misplaced_write(const Result& result) const {
  const semantics::Call call = make_call(problem_, data_.on_host());
  const auto for_each_row = [&](auto&& function) {
    for (Index b = 0; b < call.batch; ++b) {
      const semantics::Sequence sequence = semantics::sequence(call, b);
      for (Index i = 0; i < sequence.q_len; ++i) {
        for (Index head = 0; head < call.heads; ++head) {
          function(semantics::query_place(call, sequence, i), head);
        }
      }
    }
  };
  const auto element = static_cast<std::size_t>(size_in_bytes(problem_.dtype));
  const bool out_ok = only_written_there(result.out, [&](auto&& mark) {
    for_each_row([&](semantics::Place place, Index head) {
      const Index at = semantics::row_offset(call.out_stride, place, head);
      mark(data_.out().front() + static_cast<std::size_t>(at) * element,
           static_cast<std::size_t>(call.v_dim) * element);
    });
  });
  if (!out_ok) return "it wrote outside the rows of out";
  if (!data_.lse()) return "";
  const bool lse_ok = only_written_there(result.lse, [&](auto&& mark) {
    for_each_row([&](semantics::Place place, Index head) {
      const Index at = semantics::lse_offset(call, place, head);
      mark(data_.lse()->front() + static_cast<std::size_t>(at) * sizeof(float), sizeof(float));
    });
  });
  return lse_ok ? "" : "it wrote outside lse";
}

// Runs each sequence as a batch of one into the same memory and compares it all with the whole
// batch's result.
std::string Case::differs_alone(std::string_view kernel, const Result& whole) {
  for (std::int64_t b = 0; b < problem_.batch; ++b) {
    const Arguments alone = one_sequence(problem_, data_.on_device(), b);
    const Plan plan(Problem::of(alone, options_of(problem_)), device_, {.kernel = kernel});
    const Result result = run_once(plan, alone);
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

Outcome Case::run(std::string_view kernel) {
  Outcome outcome;
  const Support support = find_kernel(kernel).supports(problem_, device_);
  if (!support) return {Verdict::refused, support.refusal, 0, 0};
  const auto require = [](const std::string& fault) {
    if (!fault.empty()) throw Failure(fault);
  };
  try {
    const Result result = run_once(Plan(problem_, device_, {.kernel = kernel}), data_.on_device());
    const std::string input = data_.changed_input();
    require(input.empty() ? "" : fmt::format("it changed its input {}", input));
    require(misplaced_write(result));
    const Comparison comparison = reference_.compare(result.out, result.lse);
    outcome.error = comparison.error;
    outcome.bound = comparison.bound;
    require(comparison.fault);

    Device other = device_;
    if (device_.backend == Backend::cpu) other = Device::cpu(device_.threads == 1 ? 3 : 1);
    const Result again = run_once(Plan(problem_, other, {.kernel = kernel}), data_.on_device());
    require(again == result ? "" : "a second run gives other bits");
    if (problem_.batch_invariant) require(differs_alone(kernel, result));
  } catch (const std::exception& error) {
    outcome.verdict = Verdict::failed;
    outcome.sentence = error.what();
  }
  return outcome;
}

}  // namespace rapt::verify
