// NVIDIA's GPUs by their data sheets: what a multiprocessor does in a clock, and some chips by
// name, so that a chip need not be here to be asked about.
#pragma once

#include <span>
#include <string_view>

#include "rapt/rapt.hpp"

namespace rapt::cuda {

// Flops of one multiprocessor in one clock. Tensor cores: dense, sums in f32.
struct RatesPerClock {
  double f32;   // on FMA lanes
  double b16;   // f16 and, since Ampere, bf16 on tensor cores
  double tf32;  // f32 as TF32 on tensor cores; 0 before Ampere
};

// `capability`: 89 for sm_89. The name matters too: GeForce chips have half of some rates.
RatesPerClock rates_per_clock(int capability, std::string_view device_name);

// A chip in the driver's terms: highest clocks, in Hz, of the multiprocessors and the memory.
struct Chip {
  std::string_view name;         // as users write it
  std::string_view device_name;  // as the driver has it
  int capability;
  int multiprocessors;
  double clock, memory_clock;
  int bus_bits;
  double cache_bytes, memory_bytes;
};

// The table. The first chip of an architecture stands for it.
std::span<const Chip> chips();

// The chip as a device; −1: one that is not here.
Device device_of(const Chip& chip, int index);

// 89 for a device whose features are sm_89; 0 for one of another kind.
int capability_of(const Device& device);

}  // namespace rapt::cuda
