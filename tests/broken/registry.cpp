// The registry of a program that also has kernels which are wrong on purpose, each in one way: what
// the conformance harness must find out. And a few sound ones that differ in estimate, refusal and
// config, for selection. Linked before the library, this takes the place of
// src/library/registry.cpp.
#include "src/library/registry.hpp"

#include <atomic>
#include <cstring>

#include "src/core/layout.hpp"
#include "src/core/tensors.hpp"
#include "src/cpu/kernels.hpp"
#include "src/oracle/oracle.hpp"

namespace rapt {
namespace {

// What is done to a sound result, or to the call before it.
using Change = void (*)(const Task&, const semantics::Call&, const Launch&);
void nothing(const Task&, const semantics::Call&, const Launch&) {}

semantics::Call as_given(const semantics::Call& call) { return call; }

template <Change change, semantics::Call (*call_of)(const semantics::Call&) = as_given>
std::unique_ptr<const Prepared> prepare_changed(const Task& task) {
  return prepared(
      [task, sound = cpu_naive.prepare(task)](const semantics::Call& call, const Launch& launch) {
        sound->run(call_of(call), {}, launch);
        change(task, call, launch);
      });
}

Kernel broken(std::string_view name, std::string_view summary,
              std::unique_ptr<const Prepared> (*prepare)(const Task&)) {
  Kernel kernel = cpu_naive;
  kernel.name = name;
  kernel.summary = summary;
  kernel.by_name_only = true;
  kernel.prepare = prepare;
  return kernel;
}

// One past the last byte of out, of lse.
std::byte* end_of(const Problem& p, const char* name, void* data) {
  const TensorRule& rule = tensor_rule(name);
  const std::int64_t bytes = size_in_bytes(rule.dtype(p));
  return static_cast<std::byte*>(data) +
         extent(shape_of(p, rule), *strides_in(p, rule), bytes).value() * bytes;
}
std::byte* end_of_out(const Task& task, const semantics::Call& call) {
  return end_of(task.problem, "out", call.out);
}

// The lowest bit of the last element of out: far below any error bound.
void flip_last_bit(const Task& task, const semantics::Call& call) {
  end_of_out(task, call)[-size_in_bytes(task.problem.out_dtype)] ^= std::byte{1};
}

void wrong_value(const Task& task, const semantics::Call& call, const Launch&) {
  std::byte& high_byte = end_of_out(task, call)[-1];  // sign and exponent of the last element
  high_byte = high_byte == std::byte{0x42} ? std::byte{0x41} : std::byte{0x42};
}

void wrong_lse(const Task&, const semantics::Call& call, const Launch&) {
  if (call.lse) call.lse[0] += 0.5f;
}

void leaves_row(const Task& task, const semantics::Call& call, const Launch&) {
  const std::int64_t bytes = size_in_bytes(task.problem.out_dtype) * call.v_dim;
  std::memset(end_of_out(task, call) - bytes, 0xff, static_cast<std::size_t>(bytes));
}

void writes_past_out(const Task& task, const semantics::Call& call, const Launch&) {
  *end_of_out(task, call) = std::byte{0};
}

void writes_past_workspace(const Task&, const semantics::Call&, const Launch& launch) {
  *(launch.workspace.data() + launch.workspace.size()) = std::byte{0};
}

void writes_input(const Task&, const semantics::Call& call, const Launch&) {
  *static_cast<std::byte*>(const_cast<void*>(call.q)) ^= std::byte{1};
}

semantics::Call without_lengths(const semantics::Call& call) {
  semantics::Call whole = call;
  whole.kv_lengths = nullptr;
  return whole;
}

void changes_every_run(const Task& task, const semantics::Call& call, const Launch&) {
  static std::atomic<int> runs = 0;
  if (runs++ % 2 == 0) flip_last_bit(task, call);
}

void depends_on_threads(const Task& task, const semantics::Call& call, const Launch&) {
  if (task.device.threads == 1) flip_last_bit(task, call);
}

void depends_on_batch(const Task& task, const semantics::Call& call, const Launch&) {
  if (call.batch > 1) flip_last_bit(task, call);
}

// Of every element of out, which is dense, the lowest bit.
void depends_on_queries(const Task& task, const semantics::Call& call, const Launch&) {
  if (call.q_len == 1) return;
  const std::int64_t element = size_in_bytes(task.problem.out_dtype);
  for (auto* at = static_cast<std::byte*>(call.out); at != end_of_out(task, call); at += element)
    *at ^= std::byte{1};
}

void silent_alone(const Task& task, const semantics::Call& call, const Launch&) {
  auto* begin = static_cast<std::byte*>(call.out);
  if (call.batch == 1) std::memset(begin, 0xff, std::size_t(end_of_out(task, call) - begin));
}

void hides_nan(const Task& task, const semantics::Call& call, const Launch&) {
  auto* element = static_cast<float*>(call.out);
  auto* end = reinterpret_cast<float*>(end_of_out(task, call));
  for (; element != end; ++element) *element = *element != *element ? 0 : *element;
}

// By more than f32 loses, and by less than a glance shows.
void slightly_off(const Task& task, const semantics::Call& call, const Launch&) {
  auto* element = static_cast<float*>(call.out);
  auto* end = reinterpret_cast<float*>(end_of_out(task, call));
  for (; element != end; ++element) *element *= 1.00001f;
}

void writes_past_lse(const Task& task, const semantics::Call& call, const Launch&) {
  if (call.lse) *end_of(task.problem, "lse", call.lse) = std::byte{0};
}

void breaks_promise(const Task&, const semantics::Call&, const Launch&) {
  throw Error(ErrorCode::unsupported, "not today");
}

// Always the least estimate of those that say yes.
Kernel cheapest() {
  Kernel kernel = broken("cpu.cheapest", "naive, with the least estimate", cpu_naive.prepare);
  kernel.by_name_only = false;
  kernel.estimate = [](const Task&) { return Estimate{1e-9, "compute"}; };
  kernel.configs = [](const Problem&, const Device&) {
    return std::vector<Config>{Config::parse("tile=64,splits=1"), Config::parse("tile=32,splits=1"),
                               Config::parse("tile=32,splits=2")};
  };
  return kernel;
}

// Would be cheaper still, but takes one query only.
Kernel one_query() {
  Kernel kernel = broken("cpu.one_query", "naive, for one query", cpu_naive.prepare);
  kernel.by_name_only = false;
  kernel.estimate = [](const Task&) { return Estimate{1e-10, "compute"}; };
  kernel.supports = [](const Problem& problem, const Device&) {
    return problem.q_len == 1 ? Support::yes() : Support::no("it takes one query a sequence");
  };
  return kernel;
}

// May be chosen, but never is: its estimate is the largest. For `rapt tune`, which times it anyway.
Kernel wrong_candidate() {
  Kernel kernel =
      broken("cpu.wrong_candidate", "wrong, for a head dim of 24", prepare_changed<wrong_value>);
  kernel.by_name_only = false;
  kernel.estimate = [](const Task&) { return Estimate{1e9, "compute"}; };
  kernel.supports = [](const Problem& problem, const Device&) {
    return problem.qk_dim == 24 ? Support::yes() : Support::no("it takes a head dim of 24");
  };
  return kernel;
}

}  // namespace

std::span<const Kernel* const> registered_kernels() {
  static const Kernel faults[] = {
      broken("cpu.wrong_value", "one element is wrong", prepare_changed<wrong_value>),
      broken("cpu.wrong_lse", "one lse is wrong", prepare_changed<wrong_lse>),
      broken("cpu.leaves_row", "one row is never written", prepare_changed<leaves_row>),
      broken("cpu.writes_past_out", "one byte past out is written",
             prepare_changed<writes_past_out>),
      broken("cpu.writes_past_workspace", "one byte past the workspace is written",
             prepare_changed<writes_past_workspace>),
      broken("cpu.writes_input", "an input is changed", prepare_changed<writes_input>),
      broken("cpu.ignores_lengths", "slots past a length are read",
             prepare_changed<nothing, without_lengths>),
      broken("cpu.changes_every_run", "every other run gives other bits",
             prepare_changed<changes_every_run>),
      broken("cpu.depends_on_threads", "one thread gives other bits",
             prepare_changed<depends_on_threads>),
      broken("cpu.depends_on_batch", "a batch gives other bits", prepare_changed<depends_on_batch>),
      broken("cpu.depends_on_queries", "many queries give other bits",
             prepare_changed<depends_on_queries>),
      broken("cpu.silent_alone", "a batch of one is left unwritten", prepare_changed<silent_alone>),
      broken("cpu.hides_nan", "NaN becomes 0", prepare_changed<hides_nan>),
      broken("cpu.slightly_off", "every element is off by 1e-5", prepare_changed<slightly_off>),
      broken("cpu.writes_past_lse", "one byte past lse is written",
             prepare_changed<writes_past_lse>),
      broken("cpu.breaks_promise", "says yes, then throws", prepare_changed<breaks_promise>),
      cheapest(),
      one_query(),
      wrong_candidate(),
  };
  static const std::vector<const Kernel*> list = [] {
    std::vector<const Kernel*> all = {&cpu_oracle, &cpu_naive};
    for (const Kernel& fault : faults) all.push_back(&fault);
    return all;
  }();
  return list;
}

}  // namespace rapt
