// The conformance harness: holds a kernel to what it promised.
//
// For one problem and one seed: "supported" means that it runs and is right; nothing outside the
// results is written; inputs, guards and padding stay as they were; what no row may attend to (NaN)
// reaches no result; a second run, on the CPU with another number of threads, gives the same bits;
// `batch-invariant` rows have the same bits alone. Every registered kernel passes through here, in
// the tests and in `rapt verify`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "rapt/rapt.hpp"
#include "src/verify/data.hpp"
#include "src/verify/reference.hpp"

namespace rapt::verify {

enum class Verdict { passed, refused, failed };

struct Outcome {
  Verdict verdict = Verdict::passed;
  std::string sentence;  // the refusal, or what is wrong
  double error = 0, bound = 0;
};

// One problem with its data and what the oracle says of them, for any number of kernels.
class Case {
 public:
  Case(const Problem& problem, const Device& device, std::uint64_t seed);
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;

  Outcome run(std::string_view kernel);

  // A command line that repeats this case for that kernel.
  std::string command(std::string_view kernel) const;

 private:
  struct Result {
    std::vector<std::byte> out, lse;  // whole memories, guards included
    bool operator==(const Result&) const = default;
  };

  Result run_once(const Plan& plan, const Arguments& arguments);
  std::string misplaced_write(const Result& result) const;
  std::string differs_alone(std::string_view kernel, const Result& whole);

  Problem problem_;
  Device device_;
  std::uint64_t seed_;
  Data data_;
  Reference reference_;
};

}  // namespace rapt::verify
