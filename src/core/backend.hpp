// A backend, as the composition root knows it: its chips and their memory. Its kernels are listed
// in the registry.
#pragma once

#include <cstddef>
#include <vector>

#include "rapt/rapt.hpp"

namespace rapt {

struct BackendOperations {
  Backend backend;
  std::vector<Device> (*devices)();  // empty where there is no chip or no driver
  void* (*allocate)(const Device&, std::size_t bytes);
  void (*release)(const Device&, void* memory) noexcept;
  void (*copy_to_device)(const Device&, void* target, const void* source, std::size_t bytes);
  void (*copy_to_host)(const Device&, void* target, const void* source, std::size_t bytes);
  void (*wait)(const Device&, void* stream);  // until everything in the stream is done
};

}  // namespace rapt
