#include "cli/options.hpp"

#include <fmt/format.h>

namespace rapt::cli {

Device SharedOptions::device() const {
  const std::string_view text = names_device() ? std::string_view(device_text) : "cpu";
  if (!thread_number) return Device::parse(text);
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
