// Running every kernel of a device through the conformance harness.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "src/core/environment.hpp"
#include "src/core/fault.hpp"
#include "src/core/text.hpp"
#include "src/verify/conformance.hpp"

namespace rapt::test {

// RAPT_CONFORMANCE_CASES asks for fewer random problems than there are, for slow machines.
inline std::uint64_t cases_to_run(std::uint64_t cases) {
  const std::string value = environment_text("RAPT_CONFORMANCE_CASES");
  if (value.empty()) return cases;
  const auto fewer = parse_number<std::uint64_t>(value);
  if (!fewer || *fewer < 1 || *fewer > cases) {
    fault("RAPT_CONFORMANCE_CASES is '", value, "'; it must be a whole number from 1 to ", cases);
  }
  return *fewer;
}

inline void expect_kernel_keeps_its_promise(verify::Case& one, std::string_view kernel) {
  const verify::Outcome outcome = one.run(kernel);
  const std::string command = one.command(kernel, outcome.config);
  EXPECT_TRUE(outcome.verdict != verify::Verdict::failed) << outcome.sentence << "\n" << command;
  const bool silent = outcome.verdict == verify::Verdict::refused && outcome.sentence.empty();
  EXPECT_FALSE(silent) << command;
}

// Every kernel but the oracle: it is slow, and what the others are compared with.
inline void expect_every_kernel_keeps_its_promise(const Problem& problem, const Device& device,
                                                  std::uint64_t seed) {
  verify::Case one(problem, device, seed);
  for (const KernelInfo& kernel : kernels()) {
    const bool ours = kernel.backend == device.backend && kernel.operation == problem.operation;
    if (ours && !kernel.name.starts_with("cpu.oracle"))
      expect_kernel_keeps_its_promise(one, kernel.name);
  }
}

}  // namespace rapt::test
