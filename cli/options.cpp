#include "cli/options.hpp"

#include <fmt/format.h>

#include "src/library/registry.hpp"

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

KernelInfo kernel_info(std::string_view name) {
  std::string names;
  for (const KernelInfo& kernel : kernels()) {
    if (kernel.name == name) return kernel;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", kernel.name);
  }
  throw Error(ErrorCode::not_found,
              fmt::format("there is no kernel '{}'; there are {}", name, names));
}

}  // namespace rapt::cli
