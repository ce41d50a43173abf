// A race: kernels with their configs on one problem. Each is checked against the oracle, then all
// are timed in turns, so that what else the machine does hits them alike.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/bench/roof.hpp"
#include "cli/bench/samples.hpp"
#include "cli/bench/stopwatch.hpp"
#include "rapt/rapt.hpp"

namespace rapt::cli {

struct Entrant {
  std::string_view kernel;
  Config config;  // values that replace the kernel's own
  double expected_seconds;
};

enum class Losers { finish, drop_out };  // drop_out: whoever falls far behind is timed no more

struct RaceRules {
  double seconds_each;  // how long to sample; at least three samples if one takes less
  Losers losers;
  // Told before each run who runs, and for how many seconds as far as one knows.
  std::function<void(std::string_view kernel, double seconds)> starting;
  std::size_t warmup = 0;  // runs of each before the first that is timed
  std::size_t runs = 0;    // timed runs of each; 0: as many as fit into seconds_each
};

struct Finish {
  std::string kernel;
  Config config;  // what it ran with
  std::size_t workspace_bytes = 0;
  double error = 0, error_bound = 0;
  std::string fault;  // what is wrong with its result; empty: nothing
  Samples samples;
  std::optional<SecondsInARow> in_a_row;  // of short problems on a GPU
};

// In the order of the entrants. `roof`: where memory is the limit and the stopwatch clears no
// cache, inputs rotate through more memory than the caches hold.
std::vector<Finish> race(const Problem& problem, const Device& device, const Roof& roof,
                         std::span<const Entrant> entrants, const RaceRules& rules);

}  // namespace rapt::cli
