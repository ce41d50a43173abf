// The options that commands share: --device, --kernel, --config, --threads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "rapt/rapt.hpp"

namespace rapt::cli {

struct SharedOptions {
  std::string device_text;                    // empty: cpu
  std::string kernel;                         // empty: RAPT_KERNEL, else rapt's choice
  std::string config_text;                    // empty: the kernel's own
  std::optional<std::int32_t> thread_number;  // absent: RAPT_THREADS, else all there are

  bool names_device() const { return !device_text.empty(); }
  // --device with --threads. Throws Error.
  Device device() const;
  // The same, or a chip by its name or architecture, which need not be here. Throws Error.
  Device device_or_chip() const;
  // Throws Error.
  Config config() const;
  // What to make a plan with: --kernel and --config. Valid while these options live.
  PlanOptions plan_options() const;
  // Throws Error if the kernel does not exist or the config cannot be read. The program does this
  // before any command starts.
  void check() const;
  // Throws Error if the kernel runs on another backend. For commands that look for it among those
  // of a device.
  void check_kernel_is_for(const Device& device) const;
  // Throws Error where no kernel is named and RAPT_KERNEL's does not exist or runs on another
  // backend. For commands that race every kernel and would not notice.
  void check_environment_is_for(const Device& device) const;
};

// The chips that device_or_chip() knows, as a sentence for users.
std::string known_chips_sentence();

// For an option that names a file to write, or to read: throws Error where its value is a problem
// or a suite, which the user took the option for a flag before.
void require_output_name(std::string_view option, std::string_view value);
void require_input_name(std::string_view option, std::string_view value);

// Throws Error with the names that exist.
KernelInfo kernel_info(std::string_view name);

}  // namespace rapt::cli
