#include "cli/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "cli/bench/suite.hpp"
#include "src/core/problem_tokens.hpp"
#include "src/library/registry.hpp"
#include "src/library/selection.hpp"

namespace rapt::cli {
namespace {

std::vector<KnownChip> known_chips() {
  std::vector<KnownChip> result;
  for (const BackendOperations* backend : registered_backends()) {
    if (!backend->known_chips) continue;
    for (KnownChip& chip : backend->known_chips()) result.push_back(std::move(chip));
  }
  return result;
}

std::optional<Device> chip_named(std::string_view text) {
  for (const KnownChip& chip : known_chips()) {
    if (chip.name == text || chip.device.has(text)) return chip.device;
  }
  return std::nullopt;
}

// What a user took the option for a flag before: a problem or a suite; empty: neither.
std::string_view other_than_a_file(std::string_view value) {
  if (std::ranges::count(built_in_suites(), value, &Suite::name) > 0) return "suite";
  return reads_as_problem_tokens(value) ? "problem" : "";
}

}  // namespace

std::string known_chips_sentence() {
  std::string names;
  for (const KnownChip& chip : known_chips())
    names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", chip.name, chip.device.features);
  if (names.empty()) return "this build has no CUDA backend, and so no chips by name";
  return fmt::format("chips that need not be here: {}", names);
}

Device SharedOptions::device_or_chip() const {
  if (thread_number || !names_device()) return device();
  if (std::optional<Device> chip = chip_named(device_text)) return *chip;
  try {
    return device();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) throw;
    throw Error(error.code(), fmt::format("{}; {}", error.what(), known_chips_sentence()));
  }
}

Device SharedOptions::device() const {
  const std::string_view text = names_device() ? std::string_view(device_text) : "cpu";
  if (!thread_number) {
    if (chip_named(text)) {
      throw Error(ErrorCode::not_found,
                  fmt::format("{} is asked for by name and nothing can run on it: only `rapt "
                              "explain` takes chips that are not here; write cpu, cuda:0 or hip:0",
                              text));
    }
    return Device::parse(text);
  }
  if (text != "cpu") {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("--threads is for the CPU; leave it out with --device {}", text));
  }
  if (*thread_number < 1 || *thread_number > 1024) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("--threads is {}; it must be from 1 to 1024", *thread_number));
  }
  return Device::cpu(*thread_number);
}

Config SharedOptions::config() const { return Config::parse(config_text); }

PlanOptions SharedOptions::plan_options() const { return {.kernel = kernel, .config = config()}; }

void SharedOptions::check() const {
  if (!kernel.empty()) kernel_info(kernel);
  config();
}

void SharedOptions::check_kernel_is_for(const Device& device) const {
  if (kernel.empty()) return;
  const Backend own = kernel_info(kernel).backend;
  if (own == device.backend) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{0} runs on {1}, not on {2}: give --device {1}{3}", kernel, name(own),
                          device.to_string(), own == Backend::cpu ? "" : ":0"));
}

void SharedOptions::check_environment_is_for(const Device& device) const {
  if (kernel.empty()) check_environment(device);
}

void require_output_name(std::string_view option, std::string_view value) {
  if (const std::string_view what = other_than_a_file(value); !what.empty()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{0} takes a file to write to, and '{1}' is a {2}; write {0} FILE "
                            "before it",
                            option, value, what));
  }
}

void require_input_name(std::string_view option, std::string_view value) {
  std::error_code unknown;
  if (std::filesystem::exists(value, unknown)) return;
  if (const std::string_view what = other_than_a_file(value); !what.empty()) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{0} takes a file to read, and '{1}' is a {2}; write {0} FILE before it",
                    option, value, what));
  }
}

KernelInfo kernel_info(std::string_view name) {
  const Kernel& kernel = find_kernel(name);
  return {kernel.name, kernel.summary, kernel.backend, kernel.by_name_only, kernel.operation};
}

}  // namespace rapt::cli
