// The registry of a program that also has kernels which are wrong on purpose, each in one way: what
// the conformance harness must find out. And a few sound ones that differ in estimate, refusal and
// config, for selection. Linked before the library, this takes the place of
// src/library/registry.cpp.
#include "src/library/registry.hpp"

#include <atomic>
#include <cstring>

#include "src/core/layout.hpp"
#include "src/cpu/kernels.hpp"
#include "src/oracle/oracle.hpp"

namespace rapt {
namespace {

using Run = void (*)(const Task&, const Arguments&, const Launch&);

Kernel broken(std::string_view name, std::string_view summary, Run run) {
  Kernel kernel = cpu_naive;
  kernel.name = name;
  kernel.summary = summary;
  kernel.by_name_only = true;
  kernel.run = run;
  return kernel;
}

// One past the last byte of a tensor.
std::byte* end_of(const Tensor& tensor) {
  const std::int64_t bytes = size_in_bytes(tensor.dtype);
  const auto elements =
      extent(tensor.size, {tensor.stride[0], tensor.stride[1], tensor.stride[2]}, bytes);
  return static_cast<std::byte*>(tensor.data) + elements.value() * bytes;
}

// The lowest bit of the last element of out: far below any error bound.
void flip_last_bit(const Arguments& arguments) {
  end_of(arguments.out)[-size_in_bytes(arguments.out.dtype)] ^= std::byte{1};
}

void wrong_value(const Task& task, const Arguments& arguments, const Launch& launch) {
  cpu_naive.run(task, arguments, launch);
  std::byte& high_byte = end_of(arguments.out)[-1];  // sign and exponent of the last element
  high_byte = high_byte == std::byte{0x42} ? std::byte{0x41} : std::byte{0x42};
}

void wrong_lse(const Task& task, const Arguments& arguments, const Launch& launch) {
  cpu_naive.run(task, arguments, launch);
  if (arguments.lse.present()) static_cast<float*>(arguments.lse.data)[0] += 0.5f;
}

void leaves_row(const Task& task, const Arguments& arguments, const Launch& launch) {
  cpu_naive.run(task, arguments, launch);
  const std::int64_t bytes = size_in_bytes(arguments.out.dtype) * arguments.out.size[3];
  std::memset(end_of(arguments.out) - bytes, 0xff, static_cast<std::size_t>(bytes));
}

void writes_past_out(const Task& task, const Arguments& arguments, const Launch& launch) {
  cpu_naive.run(task, arguments, launch);
  *end_of(arguments.out) = std::byte{0};
}

void writes_past_workspace(const Task& task, const Arguments& arguments, const Launch& launch) {
  cpu_naive.run(task, arguments, launch);
  *(launch.workspace.data() + launch.workspace.size()) = std::byte{0};
}

void writes_input(const Task& task, const Arguments& arguments, const Launch& launch) {
  cpu_naive.run(task, arguments, launch);
  *static_cast<std::byte*>(arguments.q.data) ^= std::byte{1};
}

void ignores_lengths(const Task& task, const Arguments& arguments, const Launch& launch) {
  Problem problem = task.problem;
  Arguments whole = arguments;
  problem.lengths = false;
  whole.kv_lengths = {};
  cpu_naive.run({problem, task.device, task.config, task.executor}, whole, launch);
}

void changes_every_run(const Task& task, const Arguments& arguments, const Launch& launch) {
  static std::atomic<int> runs = 0;
  cpu_naive.run(task, arguments, launch);
  if (runs++ % 2 == 0) flip_last_bit(arguments);
}

void depends_on_threads(const Task& task, const Arguments& arguments, const Launch& launch) {
  cpu_naive.run(task, arguments, launch);
  if (task.device.threads == 1) flip_last_bit(arguments);
}

void depends_on_batch(const Task& task, const Arguments& arguments, const Launch& launch) {
  cpu_naive.run(task, arguments, launch);
  if (task.problem.batch > 1) flip_last_bit(arguments);
}

// Within what a single element may be off, but not all of them together.
void slightly_off(const Task& task, const Arguments& arguments, const Launch& launch) {
  cpu_naive.run(task, arguments, launch);
  auto* element = static_cast<float*>(arguments.out.data);
  auto* end = reinterpret_cast<float*>(end_of(arguments.out));
  for (; element != end; ++element) *element *= 1.00001f;
}

void writes_past_lse(const Task& task, const Arguments& arguments, const Launch& launch) {
  cpu_naive.run(task, arguments, launch);
  if (arguments.lse.present()) *end_of(arguments.lse) = std::byte{0};
}

void breaks_promise(const Task&, const Arguments&, const Launch&) {
  throw Error(ErrorCode::unsupported, "not today");
}

// Always the least estimate of those that say yes.
Kernel cheapest() {
  Kernel kernel = broken("cpu.cheapest", "naive, with the least estimate", cpu_naive.run);
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
  Kernel kernel = broken("cpu.one_query", "naive, for one query", cpu_naive.run);
  kernel.by_name_only = false;
  kernel.estimate = [](const Task&) { return Estimate{1e-10, "compute"}; };
  kernel.supports = [](const Problem& problem, const Device&) {
    return problem.q_len == 1 ? Support::yes() : Support::no("it takes one query a sequence");
  };
  return kernel;
}

// May be chosen, but never is: its estimate is the largest. For `rapt tune`, which times it anyway.
Kernel wrong_candidate() {
  Kernel kernel = broken("cpu.wrong_candidate", "wrong, for a head dim of 24", wrong_value);
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
      broken("cpu.wrong_value", "one element is wrong", wrong_value),
      broken("cpu.wrong_lse", "one lse is wrong", wrong_lse),
      broken("cpu.leaves_row", "one row is never written", leaves_row),
      broken("cpu.writes_past_out", "one byte past out is written", writes_past_out),
      broken("cpu.writes_past_workspace", "one byte past the workspace is written",
             writes_past_workspace),
      broken("cpu.writes_input", "an input is changed", writes_input),
      broken("cpu.ignores_lengths", "slots past a length are read", ignores_lengths),
      broken("cpu.changes_every_run", "every other run gives other bits", changes_every_run),
      broken("cpu.depends_on_threads", "one thread gives other bits", depends_on_threads),
      broken("cpu.depends_on_batch", "a batch gives other bits", depends_on_batch),
      broken("cpu.slightly_off", "every element is off by 1e-5", slightly_off),
      broken("cpu.writes_past_lse", "one byte past lse is written", writes_past_lse),
      broken("cpu.breaks_promise", "says yes, then throws", breaks_promise),
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
