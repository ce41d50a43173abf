// The oracle as a kernel, `cpu.oracle`, so that it can be named, run and benchmarked like any
// other.
#include "src/core/call.hpp"
#include "src/core/layout.hpp"
#include "src/core/parallel.hpp"
#include "src/core/text.hpp"
#include "src/oracle/oracle.hpp"

namespace rapt {
namespace {

using semantics::Index;

// Doubles of scratch for one thread: a row's scores and its result.
std::int64_t scratch_doubles(const Problem& p) { return p.kv_len + p.v_dim; }

Support supports(const Problem&, const Device&) { return Support::yes(); }

std::size_t workspace(const Task& task) {
  return static_cast<std::size_t>(scratch_doubles(task.problem)) * sizeof(double) *
         static_cast<std::size_t>(task.device.threads);
}

// About 1 Gflop/s a thread: nothing is vectorised.
Estimate estimate(const Task& task) {
  return estimate_from(task.problem.flops(), 1e9 * task.device.threads, task.problem.bytes(),
                       task.device.nominal.read_bandwidth, 1e-6);
}

void run(const Task& task, const semantics::Call& call, const Launch& launch) {
  const Problem& p = task.problem;
  const auto per_slot = static_cast<std::size_t>(scratch_doubles(p));
  const std::span<double> scratch(reinterpret_cast<double*>(launch.workspace.data()),
                                  per_slot * static_cast<std::size_t>(task.device.threads));
  // A row is a piece of its own: it may take a tenth of a second, and all of a head minutes.
  parallel_for_slots(
      *task.executor, task.device.threads, call.batch * p.heads * call.q_len,
      [&](Index slot, Index item) {
        const Index query = item % call.q_len, head = item / call.q_len % p.heads;
        const semantics::Sequence sequence = semantics::sequence(call, item / call.q_len / p.heads);
        if (query >= sequence.q_len) return;
        const auto mine = scratch.subspan(static_cast<std::size_t>(slot) * per_slot, per_slot);
        const auto out = mine.first(static_cast<std::size_t>(p.v_dim)),
                   scores = mine.subspan(out.size());
        const double lse = oracle_row(call, p.dtype, {sequence, head, query}, out, scores);
        const semantics::Place place = semantics::query_place(call, sequence, query);
        const Index at = semantics::row_offset(call.out_stride, place, head);
        with_element_type(p.out_dtype, [&](auto type) {
          auto* target = static_cast<decltype(type)*>(call.out) + at;
          for (const double value : out)
            *target++ = from_float<decltype(type)>(static_cast<float>(value));
        });
        if (call.lse) call.lse[semantics::lse_offset(call, place, head)] = static_cast<float>(lse);
      });
}

std::unique_ptr<const Prepared> prepare(const Task& task) {
  return prepared(
      [task](const semantics::Call& call, const Launch& launch) { run(task, call, launch); });
}

}  // namespace

const Kernel cpu_oracle = {
    .name = "cpu.oracle",
    .summary = "plain fp64, one row at a time: what every kernel is compared with",
    .backend = Backend::cpu,
    .row_invariant = true,
    .by_name_only = true,
    .supports = supports,
    .configs = one_empty_config,
    .estimate = estimate,
    .workspace = workspace,
    .prepare = prepare,
};

}  // namespace rapt
