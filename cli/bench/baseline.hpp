// An earlier `rapt bench --json`, and what has changed since: for people who changed something, and
// for machines that must notice when it got slower.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/bench/measurement.hpp"

namespace rapt::cli {

struct Baseline {
  // A row with a time, of a result that was right.
  struct Row {
    std::string problem, device, kernel;
    double seconds;
  };
  struct Machine {
    std::string device, chip;
    std::int32_t threads, multiprocessors;
  };

  std::string name, date, command;  // of its file; the command measured it
  std::vector<Machine> machines;
  std::vector<Row> rows;

  // Throws Error if the file is no report of rapt bench.
  static Baseline read(const std::string& path);

  // Whether any row is of one of these problems, on this device, by this kernel (empty: any).
  bool covers(std::span<const Problem> problems, const Device& device,
              std::string_view kernel) const;
  // What differs between its machine and this one, as a sentence; empty: nothing.
  std::string other_machine(const Device& device) const;
};

// What a run came to beside a baseline: medians that are more than `threshold` percent of the
// baseline's above or below it.
class Changes {
 public:
  Changes(const Baseline& baseline, std::span<const Measurement> rows, double threshold);

  bool slower() const { return slower_ > 0; }
  // How many rows changed, each that did, and what only one of the two has timed.
  std::string to_string(std::optional<std::size_t> width) const;

 private:
  struct Change {
    std::string kernel, problem;
    double before, now;
    double percent() const { return 100 * (now / before - 1); }
  };
  struct Timed {
    std::string kernel, problem;
  };
  static std::string listed(std::span<const Timed> rows);

  std::string name_, date_;
  double threshold_;
  std::size_t slower_ = 0, faster_ = 0, same_ = 0;
  std::vector<Change> changed_;  // the slower first
  std::vector<Timed> only_here_, only_there_;
};

}  // namespace rapt::cli
