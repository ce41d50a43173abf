// A backend, as the composition root knows it: its chips, their memory, and how they merge.
// Its kernels are listed in the registry.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "rapt/rapt.hpp"
#include "src/core/rates.hpp"
#include "src/core/stream_clock.hpp"

namespace rapt {

// A chip by its data sheet, here or not.
struct KnownChip {
  std::string_view name;  // as users write it
  Device device;          // with an index of −1
};

struct BackendOperations {
  Backend backend;
  std::vector<Device> (*devices)();  // empty where there is no chip or no driver
  void* (*allocate)(const Device&, std::size_t bytes);
  void (*release)(const Device&, void* memory) noexcept;
  void (*copy_to_device)(const Device&, void* target, const void* source, std::size_t bytes);
  void (*copy_to_host)(const Device&, void* target, const void* source, std::size_t bytes);
  void (*wait)(const Device&, void* stream);  // until everything in the stream is done
  // rapt::merge() with partials that fit together and have elements. Allocates nothing.
  void (*merge)(const Device&, const Partial& first, const Partial& second, const Partial& result,
                const MergeOptions&);

  // What only GPUs have; null elsewhere.
  std::vector<KnownChip> (*known_chips)() = nullptr;  // the first of an architecture stands for it
  bool (*estimates_measured)(const Device&) = nullptr;  // on such a chip; else they are nominal
  std::string (*absence)() = nullptr;  // why there are no devices, in the driver's words
  std::unique_ptr<StreamClock> (*clock)(const Device&) = nullptr;
  Rates (*measure)(const Device&) = nullptr;  // takes a second or so
  // Whether kernels can read and write there. No: the host's own memory, another chip's.
  bool (*reaches)(const Device&, const void* memory) = nullptr;
  // Whether what goes into the stream becomes a graph: nothing can be waited for then.
  bool (*captures)(const Device&, void* stream) = nullptr;
  // Around the work of one run, for profilers.
  void (*begin_range)(const char* label) = nullptr;
  void (*end_range)() = nullptr;
};

}  // namespace rapt
