// One plan for a batch that changes: is every step right, and what does a small one cost?
//
//   rapt_changing_batch DEVICE STEPS PROBLEM...      of problems whose sizes are bounds
//
// Makes one plan for a problem and runs it STEPS times, each with other sequences, lengths and rows
// within the bounds, in one workspace; every result is compared with the oracle. Then it times a
// step at a tenth of the bounds, by that plan and by one of its own, in turns: medians of both, and
// their ratio. Exit code 1 if a step was wrong.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "src/library/registry.hpp"
#include "src/verify/conformance.hpp"
#include "src/verify/generator.hpp"
#include "src/verify/reference.hpp"

namespace {

using namespace rapt;

constexpr std::int64_t rows_compared = 60;

// The number of steps that were wrong.
int check_steps(const Plan& plan, int steps) {
  const BackendOperations& backend = find_backend(plan.device().backend);
  const Buffer workspace(plan.device(), plan.workspace_bytes());
  int wrong = 0;
  for (int step = 0; step < steps; ++step) {
    const auto seed = static_cast<std::uint64_t>(step) * 7919 + 31;
    const Problem batch = verify::problem_within(plan.problem(), seed);
    verify::Data data(batch, plan.device(), seed, verify::Fill::typical);
    const verify::Reference reference(data, rows_compared, seed);
    data.upload();
    plan.run(data.on_device(), {.workspace = workspace.bytes()});
    backend.wait(plan.device(), nullptr);
    const verify::Results results = data.download();
    std::string fault = reference.compare(results).fault;
    if (fault.empty()) fault = verify::misplaced_write(data, results);
    if (fault.empty()) continue;
    ++wrong;
    std::printf("  step %d, '%s': %s\n", step, batch.to_string().c_str(), fault.c_str());
  }
  return wrong;
}

// A tenth of the sequences and packed rows, each with a tenth of the keys.
Problem tenth_of(const Problem& problem) {
  Problem p = problem;
  const auto tenth = [](std::int64_t size) { return std::max<std::int64_t>(1, size / 10); };
  p.batch = tenth(p.batch);
  p.kv_len = tenth(p.kv_len);
  if (p.varlen) {
    p.total_q = tenth(p.total_q);
    p.q_len = std::min(p.q_len, p.total_q);
    if (!p.paged()) p.total_kv = tenth(p.total_kv);
  } else {
    p.total_q = p.batch * p.q_len;
  }
  if (!p.varlen || p.paged()) p.total_kv = p.batch * p.kv_len;
  return Problem::parse(p.to_string());
}

double median_of(std::vector<double>& times) {
  std::ranges::sort(times);
  return times[times.size() / 2];
}

// Seconds of one run.
double time_of(const Plan& plan, const Arguments& arguments, const Buffer& workspace,
               StreamClock* clock) {
  constexpr int runs = 10;
  const Launch launch = {.stream = clock ? clock->stream() : nullptr,
                         .workspace = workspace.bytes()};
  const auto start = std::chrono::steady_clock::now();
  if (clock) clock->start();
  for (int i = 0; i < runs; ++i) plan.run(arguments, launch);
  if (clock) return clock->stop() / runs;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return elapsed.count() / runs;
}

void time_small_step(const Plan& plan) {
  const Device& device = plan.device();
  const Problem small = tenth_of(plan.problem());
  const Plan own(small, device);
  verify::Data data(small, device, 1, verify::Fill::typical);
  data.upload();
  const Arguments arguments = data.on_device();
  const Buffer workspace(device, plan.workspace_bytes()),
      own_workspace(device, own.workspace_bytes());
  const BackendOperations& backend = find_backend(device.backend);
  const auto clock = backend.clock ? backend.clock(device) : nullptr;
  std::vector<double> times, own_times;
  for (int round = 0; round < 25; ++round) {
    times.push_back(time_of(plan, arguments, workspace, clock.get()));
    own_times.push_back(time_of(own, arguments, own_workspace, clock.get()));
  }
  const double seconds = median_of(times), own_seconds = median_of(own_times);
  std::printf("  a tenth: %.2f us by this plan (%s), %.2f us by its own (%s): %.2f x\n",
              1e6 * seconds, std::string(plan.kernel()).c_str(), 1e6 * own_seconds,
              std::string(own.kernel()).c_str(), seconds / own_seconds);
}

}  // namespace

int main(int count, char** words) try {
  if (count < 4) {
    std::fputs("usage: rapt_changing_batch DEVICE STEPS PROBLEM...\n", stderr);
    return 2;
  }
  const Device device = Device::parse(words[1]);
  const int steps = std::atoi(words[2]);
  int wrong = 0;
  for (int i = 3; i < count; ++i) {
    const Plan plan(Problem::parse(words[i]), device);
    std::printf("%s on %s: %s, %zu bytes of workspace\n", words[i], words[1],
                std::string(plan.kernel()).c_str(), plan.workspace_bytes());
    const int faults = check_steps(plan, steps);
    std::printf("  %d steps, %d wrong\n", steps, faults);
    time_small_step(plan);
    wrong += faults;
  }
  return wrong == 0 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "rapt_changing_batch: %s\n", error.what());
  return 1;
}
