// The conformance harness: holds a kernel to what it promised.
//
// For one problem and one seed: "supported" means that it runs and is right; nothing outside the
// results is written; inputs, guards and padding stay as they were; what no row may attend to (NaN)
// reaches no result; a second run, on the CPU with another number of threads, gives the same bits;
// `batch-invariant` rows have the same bits alone, also by rapt's own choice of a kernel and with
// other bounds, and with `:rows` a query alone with the keys that it sees; where sizes are bounds,
// the same plan is right for a batch with less in it; on a GPU, index data that is wrong harms
// nothing. Every registered kernel passes through here, in the tests and in `rapt verify`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rapt/rapt.hpp"
#include "src/verify/data.hpp"
#include "src/verify/reference.hpp"

namespace rapt::verify {

enum class Verdict { passed, refused, failed };

struct Outcome {
  Verdict verdict = Verdict::passed;
  std::string sentence;                                // the refusal, or what is wrong
  Config config;                                       // the one that failed, or the last
  Shares shares;                                       // the largest of all configs
  std::vector<std::pair<Config, std::uint64_t>> bits;  // of every config: a hash of its results
};

// What is wrong with where a kernel wrote, or nothing.
std::string misplaced_write(const Data& data, const Results& results);

// One problem with its data and what the oracle says of them, for any number of kernels.
class Case {
 public:
  Case(const Problem& problem, const Device& device, std::uint64_t seed);
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;

  // With every config the kernel offers, or with the given one (null: all), up to the first
  // failure.
  Outcome run(std::string_view kernel, const Config* config = nullptr);

  // A command line that repeats this case for that kernel and config.
  std::string command(std::string_view kernel, const Config& config = {}) const;

 private:
  // What a problem's arguments hold, and what the oracle says of them.
  struct Batch {
    Data data;
    Reference reference;
    Batch(const Problem& problem, const Device& device, std::uint64_t seed);
  };

  Outcome run_config(std::string_view kernel, const Config& config);
  static Results run_once(const Plan& plan, Data& data, const Arguments& arguments);
  // Runs the plan; throws what is wrong with the result.
  static Results run_checked(const Plan& plan, Batch& batch, Outcome& outcome);
  std::string differs_alone(const PlanOptions& options, const Results& whole);
  std::string differs_by_row(const PlanOptions& options, const Results& whole);
  std::string harmed_by_wrong_indices(const Plan& plan);

  Problem problem_;
  Device device_;
  std::uint64_t seed_;
  Batch whole_;
  std::optional<Batch> less_;  // within the bounds of the same plan
};

}  // namespace rapt::verify
