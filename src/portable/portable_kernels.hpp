// The portable kernels as the registry knows them, for any backend that can launch them.
//
// A backend compiles the device code of src/gpu for its Target and fills in Launches; what a kernel
// supports, how long it should take and how it is cut into blocks is the same for all.
#pragma once

#include "src/core/kernel.hpp"
#include "src/gpu/flash.hpp"
#include "src/gpu/flash_backward.hpp"
#include "src/gpu/naive.hpp"
#include "src/gpu/naive_backward.hpp"
#include "src/gpu/split_kv.hpp"
#include "src/gpu/tiled_launch.hpp"
#include "src/gpu/tiny_kv.hpp"

namespace rapt::gpu {

struct Launches {
  Backend backend;
  Support (*has_code)(const Device&);  // that a device can run
  void (*naive)(const ScoreMatrix&, Where);
  void (*tiled)(const ScoreMatrix&, TiledTiles, Where);
  void (*flash)(const FlashParameters&, Where);
  void (*split_kv)(const SplitKvParameters&, Where);
  void (*tiny_kv)(const TinyKvParameters&, Where);
  void (*naive_backward)(const NaiveBackwardParameters&, Where);
  void (*flash_backward)(const FlashBackwardParameters&, Where);
};

// Of backends that have code for all their devices.
inline Support code_for_all(const Device&) { return Support::yes(); }

// All launches of a backend, from its Launcher.
template <class Launcher>
constexpr Launches launches_of(Backend backend, Support (*has_code)(const Device&) = code_for_all) {
  return {
      .backend = backend,
      .has_code = has_code,
      .naive = launch_naive<Launcher>,
      .tiled = launch_tiled<Launcher>,
      .flash = launch_flash<Launcher>,
      .split_kv = launch_split_kv<Launcher>,
      .tiny_kv = launch_tiny_kv<Launcher>,
      .naive_backward = launch_naive_backward<Launcher>,
      .flash_backward = launch_flash_backward<Launcher>,
  };
}

// What a kernel is on all backends: its functions for the registry, in the file of its name.
#define RAPT_PORTABLE_KERNEL(Host, of, text)                                      \
  struct Host {                                                                   \
    static constexpr Operation operation = Operation::of;                         \
    static constexpr std::string_view summary = text;                             \
    static Support supports(const Problem&, const Device&);                       \
    static std::vector<Config> configs(const Problem&, const Device&);            \
    static Estimate estimate(const Task&);                                        \
    static std::size_t workspace(const Task&);                                    \
    static std::unique_ptr<const Prepared> prepare(const Launches&, const Task&); \
  }
RAPT_PORTABLE_KERNEL(NaiveHost, forward, "every score stored, three kernels: the baseline");
RAPT_PORTABLE_KERNEL(SharedHost, forward,
                     "every score stored, products through tiles in shared memory");
RAPT_PORTABLE_KERNEL(FlashHost, forward, "online softmax, one kernel, no score matrix");
RAPT_PORTABLE_KERNEL(FlashWideHost, forward,
                     "heads of any width: tiles over the head dim, chunks of the keys");
RAPT_PORTABLE_KERNEL(
    SplitKvHost, forward,
    "few queries: the keys in chunks at the same time, then their results combined");
RAPT_PORTABLE_KERNEL(TinyKvHost, forward,
                     "a handful of keys and a huge batch: one row in a few lanes' registers");
RAPT_PORTABLE_KERNEL(NaiveBackwardHost, backward,
                     "every weight and score's gradient stored, then sums of rows: the baseline");
RAPT_PORTABLE_KERNEL(FlashBackwardHost, backward,
                     "recomputes weights in tiles, no score matrix, one order of sums");
#undef RAPT_PORTABLE_KERNEL

// Those that take `batch-invariant:rows`.
template <class Host>
inline constexpr bool is_row_invariant = false;
template <>
inline constexpr bool is_row_invariant<FlashHost> = true;

// A portable kernel under its name on a backend, e.g. "cuda.tiny_kv".
template <const Launches& launches, class Host>
constexpr Kernel kernel_named(std::string_view name) {
  return {
      .name = name,
      .summary = Host::summary,
      .backend = launches.backend,
      .operation = Host::operation,
      .row_invariant = is_row_invariant<Host>,
      .by_name_only = false,
      .supports =
          [](const Problem& problem, const Device& device) {
            Support code = launches.has_code(device);
            return code ? Host::supports(problem, device) : code;
          },
      .configs = Host::configs,
      .estimate = Host::estimate,
      .workspace = Host::workspace,
      .prepare = [](const Task& task) { return Host::prepare(launches, task); },
  };
}

}  // namespace rapt::gpu
