// Plan: a problem bound to a device, a kernel and a config. attention() and check() around it.
#include <atomic>
#include <chrono>
#include <vector>

#include "src/core/call.hpp"
#include "src/core/environment.hpp"
#include "src/core/fault.hpp"
#include "src/core/index_data.hpp"
#include "src/core/layout.hpp"
#include "src/core/match.hpp"
#include "src/core/text.hpp"
#include "src/cpu/thread_pool.hpp"
#include "src/library/placement.hpp"
#include "src/library/registry.hpp"
#include "src/library/selection.hpp"

namespace rapt {

Executor::~Executor() = default;

Executor& own_threads(const Device& device) {
  if (device.backend != Backend::cpu)
    fault("own_threads() is for a CPU, not for ", device.to_string());
  return shared_thread_pool(device.threads);
}

struct Plan::State {
  explicit State(const Problem& given) : problem(given), matcher(problem) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const Problem problem;
  const Matcher matcher;
  const semantics::Call call = planned_call(problem);
  const semantics::Gradients gradients = planned_gradients(problem);
  Device device;
  const Kernel* kernel = nullptr;
  Config config;
  Executor* executor = nullptr;  // rapt's own or the caller's; null on a GPU
  std::unique_ptr<const Prepared> prepared;
  std::size_t workspace_bytes = 0;
  bool log = false, check = false;  // check: index data on a GPU
  const BackendOperations* backend = nullptr;
  std::string label;                          // for profilers
  mutable std::atomic<bool> reached = false;  // the tensors of an earlier run

  Task task() const { return {problem, device, config, executor}; }

  // Where the tensors lie, in a plan's first run; with RAPT_CHECK in every run, and the index data
  // too. Nothing while a graph is captured: the device cannot be asked, and the data comes later.
  void check_on_gpu(const Arguments& arguments, const Launch& launch) const {
    if (!check && reached.load(std::memory_order_relaxed)) return;
    if (backend->captures && backend->captures(device, launch.stream)) return;
    check_placement(*backend, device, arguments, launch.workspace);
    if (check) rapt::check(problem, arguments, device);
    reached.store(true, std::memory_order_relaxed);
  }
};

namespace {

// The device as the plan will use it: with the caller's executor, as many threads as that has.
Device device_for(const Device& device, const Executor* executor) {
  if (device.backend != Backend::cpu || !executor) return device;
  if (executor->concurrency() < 1 || executor->concurrency() > most_threads) {
    fault("the executor's concurrency is ", executor->concurrency(), "; it must be from 1 to ",
          most_threads);
  }
  return Device::cpu(executor->concurrency());
}

// The work of a run, as a profiler shows it.
class Range {
 public:
  Range(const BackendOperations& backend, const std::string& label) : backend_(backend) {
    if (backend_.begin_range) backend_.begin_range(label.c_str());
  }
  ~Range() {
    if (backend_.end_range) backend_.end_range();
  }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  const BackendOperations& backend_;
};

// Without queries there is nothing to attend for, but keys still have gradients: zeros.
bool computes_nothing(const Problem& problem, const Sizes& sizes) {
  return problem.operation == Operation::forward && (sizes.total_q == 0 || sizes.batch == 0);
}

// A host copy of a tensor of index data that lies on a device; `storage` owns it.
Tensor host_copy(const Tensor& tensor, const Device& device, std::vector<std::int32_t>& storage) {
  if (!tensor.present() || tensor.data == nullptr) return tensor;
  const auto elements = extent(tensor.size, {tensor.stride[0], tensor.stride[1], tensor.stride[2]},
                               sizeof(std::int32_t));
  storage.resize(static_cast<std::size_t>(elements.value_or(0)));
  find_backend(device.backend)
      .copy_to_host(device, storage.data(), tensor.data, storage.size() * sizeof(std::int32_t));
  Tensor copy = tensor;
  copy.data = storage.data();
  return copy;
}

void run_once(const Arguments& arguments, const Options& options, const Device& device) {
  const Plan plan(Problem::of(arguments, options), device);
  const Buffer workspace(device, plan.workspace_bytes());
  plan.run(arguments, {.workspace = workspace.bytes()});
  find_backend(device.backend).wait(device, nullptr);
}

}  // namespace

Plan::Plan(const Problem& problem, const Device& device, const PlanOptions& options) {
  problem.validate();
  const auto state = std::make_shared<State>(problem);
  state->device = device_for(device, options.executor);
  Selection selection = select(problem, state->device, options);
  state->kernel = selection.kernel;
  state->config = std::move(selection.config);
  state->executor = device.backend == Backend::cpu ? options.executor : nullptr;
  if (device.backend == Backend::cpu && !options.executor) {
    state->executor = &shared_thread_pool(state->device.threads);
  }
  state->workspace_bytes = state->kernel->workspace(state->task());
  state->prepared = state->kernel->prepare(state->task());
  state->backend = &find_backend(device.backend);
  state->label = text(state->kernel->name, " ", problem.to_string());
  state->log = environment_flag("RAPT_LOG");
  state->check = environment_flag("RAPT_CHECK");
  if (state->log) {
    log_line(text("plan '", problem.to_string(), "' on ", device.to_string(), ": ",
                  state->kernel->name, " (", selection.reason, "), about ",
                  human_seconds(state->kernel->estimate(state->task()).seconds), ", workspace ",
                  human_bytes(double(state->workspace_bytes))));
    for (const std::string& warning : selection.warnings) log_line(text("warning: ", warning));
  }
  state_ = state;
}

const Problem& Plan::problem() const { return state_->problem; }
const Device& Plan::device() const { return state_->device; }
std::string_view Plan::kernel() const { return state_->kernel->name; }
const Config& Plan::config() const { return state_->config; }
std::size_t Plan::workspace_bytes() const { return state_->workspace_bytes; }

void Plan::run(const Arguments& arguments, const Launch& launch) const {
  const State& state = *state_;
  const Sizes sizes = state.matcher.match(arguments);
  if (computes_nothing(state.problem, sizes)) return;
  state.matcher.require_memory_of_their_own(arguments);
  if (state.device.backend == Backend::cpu) {
    check_index_data(state.problem, sizes, arguments);
  } else {
    state.check_on_gpu(arguments, launch);
  }
  if (launch.workspace.size() < state.workspace_bytes) {
    fault("the workspace has ", launch.workspace.size(), " bytes; ", state.kernel->name, " needs ",
          state.workspace_bytes, " (Plan::workspace_bytes())");
  }
  if (state.workspace_bytes > 0 &&
      reinterpret_cast<std::uintptr_t>(launch.workspace.data()) % workspace_alignment != 0) {
    fault("the workspace is not aligned to ", workspace_alignment, " bytes; rapt::Buffer is");
  }
  const semantics::Call call = make_call(state.call, sizes, arguments);
  const bool backward = state.problem.operation == Operation::backward;
  const semantics::Gradients gradients =
      backward ? make_gradients(state.gradients, arguments) : semantics::Gradients();
  const Range range(*state.backend, state.label);
  if (!state.log) return state.prepared->run(call, gradients, launch);
  const auto start = std::chrono::steady_clock::now();
  state.prepared->run(call, gradients, launch);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  log_line(text("run '", state.problem.to_string(), "' on ", state.device.to_string(), ": ",
                state.kernel->name, ", ", human_seconds(elapsed.count())));
}

void attention(const Arguments& arguments, const Options& options, const Device& device) {
  if (arguments.dout.present())
    fault("dout is given, but attention() computes no gradients; attention_backward() does");
  run_once(arguments, options, device);
}

void attention_backward(const Arguments& arguments, const Options& options, const Device& device) {
  if (!arguments.dout.present()) fault("dout is missing; backward starts from the gradient of out");
  run_once(arguments, options, device);
}

void check(const Problem& problem, const Arguments& arguments, const Device& device) {
  const Sizes sizes = match(problem, arguments);
  if (device.backend == Backend::cpu) {
    check_index_data(problem, sizes, arguments);
    return;
  }
  check_placement(find_backend(device.backend), device, arguments);
  Arguments on_host = arguments;
  std::vector<std::vector<std::int32_t>> copies;
  for (const TensorRule& rule : tensor_rules()) {
    if (rule.is_index_data)
      on_host.*rule.member = host_copy(arguments.*rule.member, device, copies.emplace_back());
  }
  check_index_data(problem, sizes, on_host);
}

std::string_view version() { return RAPT_VERSION; }

}  // namespace rapt
