#include "cli/bench/race.hpp"

#include <algorithm>
#include <limits>
#include <memory>

#include "cli/bench/stopwatch.hpp"
#include "src/verify/data.hpp"
#include "src/verify/reference.hpp"

namespace rapt::cli {
namespace {

constexpr std::uint64_t data_seed = 1;
constexpr std::size_t most_input_sets = 256;
constexpr double oracle_multiplications = 3e8;  // what checking a problem may cost
constexpr double short_run = 50e-6;             // seconds, of the best kernel: timed in a row too

// Inputs for one problem. Where memory is the limit there are as many sets as outgrow the caches,
// used in turn.
class Inputs {
 public:
  Inputs(const Problem& problem, const Device& device, bool rotate) {
    sets_.push_back(make(problem, device, data_seed));
    if (!rotate) return;
    const double wanted = std::max(2.5 * device.nominal.cache_bytes, 256.0 * (1 << 20));
    const double one = std::max(1.0, double(sets_[0]->input_bytes()));
    const auto count =
        static_cast<std::size_t>(std::clamp(wanted / one, 0.0, double(most_input_sets)));
    while (sets_.size() <= count) sets_.push_back(make(problem, device, data_seed + sets_.size()));
  }
  verify::Data& first() { return *sets_[0]; }
  Arguments next() { return sets_[turn_++ % sets_.size()]->on_device(); }

 private:
  static std::unique_ptr<verify::Data> make(const Problem& problem, const Device& device,
                                            std::uint64_t seed) {
    auto data = std::make_unique<verify::Data>(problem, device, seed, verify::Fill::typical);
    data->upload();
    return data;
  }
  std::vector<std::unique_ptr<verify::Data>> sets_;
  std::size_t turn_ = 0;
};

// The plans of the entrants, one workspace that is large enough for each, and the stopwatch.
class Track {
 public:
  Track(const Problem& problem, const Device& device, std::span<const Entrant> entrants)
      : stopwatch_(own_clock(device)) {
    std::size_t largest = 0;
    for (const Entrant& entrant : entrants) {
      plans_.emplace_back(problem, device,
                          PlanOptions{.kernel = entrant.kernel, .config = entrant.config});
      largest = std::max(largest, plans_.back().workspace_bytes());
    }
    workspace_ = Buffer(device, largest);
  }
  const std::vector<Plan>& plans() const { return plans_; }

  const Stopwatch& stopwatch() const { return stopwatch_; }
  Run run(const Plan& plan, const Arguments& arguments) const {
    return {plan, arguments, workspace_.bytes().first(plan.workspace_bytes())};
  }
  double seconds(const Plan& plan, const Arguments& arguments) const {
    return stopwatch_.seconds(run(plan, arguments));
  }

 private:
  Stopwatch stopwatch_;
  std::vector<Plan> plans_;
  Buffer workspace_;
};

// Sampled rows only: the oracle would take minutes for all of a large problem.
verify::Reference reference_for(const verify::Data& data) {
  const Problem& p = data.problem();
  const double row = std::max(1.0, double(p.kv_len) * double(p.qk_dim + p.v_dim));
  const double rows = std::clamp(oracle_multiplications / row, 4.0, 256.0);
  return {data, static_cast<std::int64_t>(rows), data_seed};
}

Finish check(const Track& track, const Plan& plan, verify::Data& data,
             const verify::Reference& reference) {
  data.upload_outputs();
  track.seconds(plan, data.on_device());
  const verify::Comparison comparison = reference.compare(data.download());
  return {.kernel = std::string(plan.kernel()),
          .config = plan.config(),
          .workspace_bytes = plan.workspace_bytes(),
          .error = comparison.error,
          .error_bound = comparison.bound,
          .fault = comparison.fault,
          .samples = {},
          .in_a_row = {}};
}

bool enough(const Samples& samples, const RaceRules& rules) {
  return rules.runs > 0 ? samples.count() >= rules.runs : samples.enough(rules.seconds_each);
}

// Graphs are the one thing that checking a kernel did not try.
void time_in_a_row(const Track& track, const Plan& plan, const Arguments& arguments,
                   Finish& finish) {
  if (!finish.fault.empty()) return;
  try {
    finish.in_a_row = track.stopwatch().seconds_in_a_row(track.run(plan, arguments));
  } catch (const Error& error) {
    finish.fault = error.what();
  }
}

}  // namespace

std::vector<Finish> race(const Problem& problem, const Device& device, const Roof& roof,
                         std::span<const Entrant> entrants, const RaceRules& rules) {
  if (entrants.empty()) return {};
  const Track track(problem, device, entrants);
  const bool rotate = roof.bound == "memory" && !track.stopwatch().clears_cache();
  Inputs inputs(problem, device, rotate);
  const verify::Reference reference = reference_for(inputs.first());
  std::vector<Finish> finishes;
  for (std::size_t i = 0; i < entrants.size(); ++i) {
    rules.starting(entrants[i].kernel, entrants[i].expected_seconds);
    finishes.push_back(check(track, track.plans()[i], inputs.first(), reference));
  }

  const auto run = [&](std::size_t i) {
    const Samples& samples = finishes[i].samples;
    rules.starting(finishes[i].kernel,
                   samples.count() > 0 ? samples.least() : entrants[i].expected_seconds);
    return track.seconds(track.plans()[i], inputs.next());
  };
  for (std::size_t round = 0; round < rules.warmup; ++round) {
    for (std::size_t i = 0; i < finishes.size(); ++i) run(i);
  }
  double best = std::numeric_limits<double>::infinity();  // of those that are right
  for (bool going = true; going;) {
    going = false;
    for (std::size_t i = 0; i < finishes.size(); ++i) {
      Finish& finish = finishes[i];
      const bool out = rules.losers == Losers::drop_out && finish.samples.far_behind(best);
      if (out || enough(finish.samples, rules)) continue;
      const double seconds = run(i);
      finish.samples.add(seconds);
      if (finish.fault.empty()) best = std::min(best, seconds);
      going = true;
    }
  }
  if (has_own_clock(device) && best < short_run) {
    for (std::size_t i = 0; i < finishes.size(); ++i)
      time_in_a_row(track, track.plans()[i], inputs.first().on_device(), finishes[i]);
  }
  return finishes;
}

}  // namespace rapt::cli
