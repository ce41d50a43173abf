#include "src/verify/conformance.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include <fmt/format.h>
#include "src/core/call.hpp"
#include "src/core/tensors.hpp"
#include "src/library/registry.hpp"
#include "src/verify/elements.hpp"
#include "src/verify/generator.hpp"
#include "src/verify/random.hpp"

namespace rapt::verify {

using semantics::Index;

namespace {

constexpr std::int64_t most_rows = 4000;
constexpr std::int64_t most_alone = 8;  // sequences of a batch that are run alone
constexpr int queries_alone = 4;

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
std::uint64_t hash_of(const Results& results) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const auto& [name, memory] : results) {
    for (const std::byte byte : memory)
      hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3u;
  }
  return hash;
}

// Where the results of one sequence lie, or of all from the first to before the last, by tensor.
// What is summed over sequences (dsinks, say) belongs to all of them together.
class ResultPlaces {
 public:
  ResultPlaces(const Data& data, Index first, Index last)
      : data_(data), call_(make_call(data.problem(), data.on_host())) {
    const Problem& p = data.problem();
    const bool all = first == 0 && last == p.batch;
    for (const TensorRule& rule : tensor_rules()) {
      if (!rule.wanted(p) || !rule.written(p.operation)) continue;
      const Axis outer = rule.axes(p)[0];
      if (outer == Axis::q_outer || outer == Axis::kv_outer) {
        for (Index b = first; b < last; ++b) add_rows(rule, semantics::sequence(call_, b));
      } else if (all) {
        add_all(rule);
      }
    }
  }

  // Of one query of a sequence, of forward.
  ResultPlaces(const Data& data, const semantics::Sequence& sequence, Index query)
      : data_(data), call_(make_call(data.problem(), data.on_host())) {
    for (const TensorRule& rule : tensor_rules()) {
      if (rule.wanted(data.problem()) && rule.written(Operation::forward))
        add_rows(rule, sequence, {query, query + 1});
    }
  }

  const std::map<std::string, Places>& by_name() const { return places_; }

 private:
  void add_rows(const TensorRule& rule, const semantics::Sequence& sequence) {
    const bool of_queries = rule.axes(data_.problem())[0] == Axis::q_outer;
    const Index rows = of_queries ? sequence.q_len : semantics::stored_keys(call_, sequence);
    add_rows(rule, sequence, {0, rows});
  }

  void add_rows(const TensorRule& rule, const semantics::Sequence& sequence,
                semantics::Range rows) {
    const Problem& p = data_.problem();
    const Axes axes = rule.axes(p);
    const bool of_queries = axes[0] == Axis::q_outer, lse = axes[1] == Axis::head;
    const Problem::Strides& planned = *strides_in(p, rule);
    const Index stride[3] = {planned[0], planned[1], planned[2]};
    for (Index i = rows.begin; i < rows.end; ++i) {
      const semantics::Place place = of_queries ? semantics::query_place(call_, sequence, i)
                                                : semantics::key_place(call_, sequence, i);
      for (Index head = 0; head < (of_queries ? call_.heads : call_.kv_heads); ++head) {
        const Index at = lse ? semantics::lse_offset(stride, place, head)
                             : semantics::row_offset(stride, place, head);
        add(rule, at, lse ? 1 : shape_of(p, rule)[3]);
      }
    }
  }

  void add_all(const TensorRule& rule) {
    const Tensor tensor = data_.on_host().*rule.member;
    for (Index a = 0; a < tensor.size[0]; ++a) {
      for (Index b = 0; b < tensor.size[1]; ++b) {
        for (Index c = 0; c < tensor.size[2]; ++c)
          add(rule, a * tensor.stride[0] + b * tensor.stride[1] + c * tensor.stride[2],
              tensor.size[3]);
      }
    }
  }

  void add(const TensorRule& rule, Index at, Index count) {
    const auto element = static_cast<std::size_t>(size_in_bytes(rule.dtype(data_.problem())));
    places_[std::string(rule.name)].emplace_back(
        data_.memory(rule.name).front() + static_cast<std::size_t>(at) * element,
        static_cast<std::size_t>(count) * element);
  }

  const Data& data_;
  const semantics::Call call_;
  std::map<std::string, Places> places_;
};

// Guards and padding between rows belong to nobody; so do packed rows outside every sequence.
std::string misplaced(const Data& data, const ResultPlaces& places, const Results& results) {
  for (const auto& [name, rows] : places.by_name()) {
    const std::vector<std::byte>& memory = results.at(name);
    const auto element =
        static_cast<std::size_t>(size_in_bytes(tensor_rule(name).dtype(data.problem())));
    if (written_outside(memory, rows)) return fmt::format("it wrote outside the rows of {}", name);
    if (left_unwritten(memory, rows, element))
      return fmt::format("it left an element of {} unwritten", name);
  }
  return "";
}

bool same_bytes(const std::vector<std::byte>& one, const std::vector<std::byte>& other,
                const Places& places) {
  return std::ranges::all_of(places, [&](const auto& place) {
    return std::memcmp(one.data() + place.first, other.data() + place.first, place.second) == 0;
  });
}

// The same where the second has numbers.
bool same_numbers(const std::vector<std::byte>& one, const std::vector<std::byte>& other,
                  DType dtype, const Places& places) {
  const auto element = static_cast<std::size_t>(size_in_bytes(dtype));
  return std::ranges::all_of(places, [&](const auto& place) {
    std::vector<float> numbers(place.second / element);
    from_elements(dtype, other.data() + place.first, numbers);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const std::size_t at = place.first + i * element;
      if (std::isfinite(numbers[i]) &&
          std::memcmp(one.data() + at, other.data() + at, element) != 0)
        return false;
    }
    return true;
  });
}

// Whether it is what rapt would choose.
bool is_chosen(const Problem& problem, const Device& device, std::string_view kernel,
               const Config& config) {
  const std::vector<Candidate> candidates = explain(problem, device).candidates;
  return std::ranges::any_of(candidates, [&](const Candidate& candidate) {
    return candidate.chosen && candidate.kernel == kernel && candidate.config == config;
  });
}

// Whether kernels see the memory of one sequence as they see that of all: what they take depends
// on alignment, and on tensors that are broadcast over the batch.
bool same_layout(const Problem& whole, const Problem& alone) {
  if (whole.alignment != alone.alignment) return false;
  for (const TensorRule& rule : tensor_rules()) {
    if (!rule.in_layout()) continue;
    const bool shared = (whole.*rule.strides)[0] == 0;
    if (shared && shape_of(whole, rule)[0] > 1) return false;
  }
  return true;
}

}  // namespace

std::string misplaced_write(const Data& data, const Results& results) {
  return misplaced(data, ResultPlaces(data, 0, data.problem().batch), results);
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
Results Case::run_once(const Plan& plan, Data& data, const Arguments& arguments) {
  data.upload();
  Guarded workspace(plan.device(), plan.workspace_bytes(), workspace_alignment, true);
  workspace.upload();
  plan.run(arguments, {.workspace = {workspace.on_device(), plan.workspace_bytes()}});
  find_backend(plan.device().backend).wait(plan.device(), nullptr);
  if (!workspace.guards_unchanged()) throw Failure("it wrote outside its workspace");
  return data.download();
}

Results Case::run_checked(const Plan& plan, Batch& batch, Outcome& outcome) {
  const Results result = run_once(plan, batch.data, batch.data.on_device());
  const auto require = [](const std::string& fault) {
    if (!fault.empty()) throw Failure(fault);
  };
  const std::string input = batch.data.changed_input();
  require(input.empty() ? "" : fmt::format("it changed its input {}", input));
  const Comparison comparison = batch.reference.compare(result);
  outcome.shares.take_larger(comparison.shares);
  require(comparison.fault);
  require(misplaced_write(batch.data, result));
  return result;
}

// Runs each sequence as a batch of one, with bounds of its own, into the same memory and compares
// it with the whole batch's result. Without a kernel in the options, by rapt's own choice.
std::string Case::differs_alone(const PlanOptions& options, const Results& whole) {
  const semantics::Call call = make_call(problem_, whole_.data.on_host());
  const std::int64_t sequences = std::min(problem_.batch, most_alone);
  for (std::int64_t b = 0; b < sequences; ++b) {
    const Arguments arguments = one_sequence(problem_, whole_.data.on_device(), b);
    const semantics::Sequence sequence = semantics::sequence(call, b);
    Options alone = options_of(problem_);
    const bool any_bounds = !problem_.bias.present() && !problem_.mask.present();  // of their axes
    if (any_bounds && problem_.varlen) alone.max_q_len = std::max<Index>(sequence.q_len, 1);
    if (any_bounds && problem_.paged() && problem_.lengths)
      alone.max_kv_len = std::max<Index>(sequence.kv_len, 1);
    const Problem problem = Problem::of(arguments, alone);
    if (options.kernel.empty() && !same_layout(problem_, problem)) continue;
    const Plan plan(problem, device_, options);
    const Results result = run_once(plan, whole_.data, arguments);
    const ResultPlaces places(whole_.data, b, b + 1);
    const std::string how =
        fmt::format("sequence {} alone, by {} {}: ", b, plan.kernel(), plan.config().to_string());
    const std::string fault = misplaced(whole_.data, places, result);
    if (!fault.empty()) return how + fault;
    for (const auto& [name, rows] : places.by_name()) {
      if (!same_bytes(result.at(name), whole.at(name), rows))
        return how + "gives other bits than in its batch";
    }
  }
  return "";
}

// Runs some queries of some sequences alone, each with no more keys than it sees, into the same
// memory. Where a value that is not finite is among the keys, rows that do not see it may differ.
std::string Case::differs_by_row(const PlanOptions& options, const Results& whole) {
  const semantics::Call call = make_call(problem_, whole_.data.on_host());
  Random random(seed_ ^ 0x726f7773u);
  for (int i = 0; i < queries_alone; ++i) {
    if (problem_.batch == 0) break;
    const semantics::Sequence sequence = semantics::sequence(call, random.below(problem_.batch));
    if (sequence.q_len == 0) continue;
    const Index query = random.below(sequence.q_len), position = query + sequence.offset;
    const Index keys = semantics::end_key(call.window, position, sequence.kv_len);
    Options alone = options_of(problem_);
    alone.offset = position;
    alone.max_q_len = std::nullopt;
    if (!problem_.paged()) alone.max_kv_len = std::nullopt;
    const Arguments arguments = one_query(problem_, whole_.data.on_device(), sequence, query, keys);
    const Plan plan(Problem::of(arguments, alone), device_, options);
    const Results result = run_once(plan, whole_.data, arguments);
    const ResultPlaces places(whole_.data, sequence, query);
    const std::string how = fmt::format("query {} of sequence {} alone, by {} {}: ", query,
                                        sequence.index, plan.kernel(), plan.config().to_string());
    const std::string fault = misplaced(whole_.data, places, result);
    if (!fault.empty()) return how + fault;
    for (const auto& [name, rows] : places.by_name()) {
      const DType dtype = tensor_rule(name).dtype(problem_);
      if (!same_numbers(result.at(name), whole.at(name), dtype, rows))
        return how + "gives other bits than among others";
    }
  }
  return "";
}

// Starts, lengths and pages that are wrong give wrong results, but no wrong access.
std::string Case::harmed_by_wrong_indices(const Plan& plan) {
  Data& data = whole_.data;
  data.spoil_indices(seed_);
  run_once(plan, data, data.on_device());
  const std::string input = data.changed_input();
  std::string outside;
  for (const auto& [name, memory] : data.download()) {
    if (!data.memory(name).guards_unchanged()) outside = name;
  }
  data.refill(seed_, Fill::hostile);
  if (!input.empty()) return fmt::format("with wrong index data it changed its input {}", input);
  return outside.empty() ? "" : fmt::format("with wrong index data it wrote outside {}", outside);
}

Outcome Case::run(std::string_view kernel, const Config* config) {
  const Kernel& registered = find_kernel(kernel);
  const Support support = support_of(registered, problem_, device_);
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
    const Results result = run_checked(plan, whole_, outcome);
    outcome.bits = {{config, hash_of(result)}};

    Device other = device_;
    if (device_.backend == Backend::cpu) other = Device::cpu(device_.threads == 1 ? 3 : 1);
    const Results again =
        run_once(Plan(problem_, other, options), whole_.data, whole_.data.on_device());
    require(again == result ? "" : "a second run gives other bits");
    if (problem_.batch_invariant) {
      require(differs_alone(options, result));
      if (is_chosen(problem_, device_, kernel, config)) require(differs_alone({}, result));
    }
    if (problem_.row_invariant) {
      require(differs_by_row(options, result));
      if (is_chosen(problem_, device_, kernel, config)) require(differs_by_row({}, result));
    }
    if (device_.backend != Backend::cpu && (problem_.bounded() || problem_.paged()))
      require(harmed_by_wrong_indices(plan));
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
