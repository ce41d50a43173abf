#include "src/cuda/architectures.hpp"

#include <algorithm>
#include <charconv>

#include "src/core/text.hpp"

namespace rapt::cuda {
namespace {

struct Architecture {
  int capability;
  RatesPerClock rates;
  bool geforce_halves = false;  // products of f16 with sums in f32, and of TF32
};

// The throughput tables of the CUDA programming guide: FMA lanes × 2, tensor cores × their products
// × 2. Data sheets of Hopper and of B200 count tensor cores at lower clocks (1830 and 1856 MHz)
// than the highest one.
constexpr double hopper = 1830.0 / 1980, b200 = 1856.0 / 1965;
constexpr Architecture architectures[] = {
    {50, {256, 0, 0}},
    {60, {128, 0, 0}},
    {61, {256, 0, 0}},
    {70, {128, 1024, 0}},
    {75, {128, 1024, 0}, true},
    {80, {128, 2048, 1024}},
    {86, {256, 1024, 512}, true},
    {87, {256, 1024, 512}},
    {89, {256, 1024, 512}, true},
    {90, {256, 4096 * hopper, 2048 * hopper}},
    {100, {256, 8192 * b200, 4096 * b200}},
    {120, {256, 1024, 512}, true},
};

constexpr double megahertz = 1e6, mib = 1 << 20, gib = 1 << 30;
constexpr Chip table[] = {
    {"h200", "NVIDIA H200", 90, 132, 1980 * megahertz, 3134 * megahertz, 6144, 60 * mib, 140 * gib},
    {"h100", "NVIDIA H100 80GB HBM3", 90, 132, 1980 * megahertz, 2619 * megahertz, 5120, 50 * mib,
     79 * gib},
    {"b200", "NVIDIA B200", 100, 148, 1965 * megahertz, 3996 * megahertz, 8192, 126 * mib,
     178 * gib},
    {"a100", "NVIDIA A100-SXM4-80GB", 80, 108, 1410 * megahertz, 1593 * megahertz, 5120, 40 * mib,
     79 * gib},
    {"l40s", "NVIDIA L40S", 89, 142, 2520 * megahertz, 9001 * megahertz, 384, 96 * mib, 44 * gib},
    {"rtx4090", "NVIDIA GeForce RTX 4090", 89, 128, 2520 * megahertz, 10501 * megahertz, 384,
     72 * mib, 23 * gib},
    {"rtx5090", "NVIDIA GeForce RTX 5090", 120, 170, 2407 * megahertz, 14001 * megahertz, 512,
     96 * mib, 31 * gib},
    {"rtx3090", "NVIDIA GeForce RTX 3090", 86, 82, 1695 * megahertz, 9751 * megahertz, 384, 6 * mib,
     23 * gib},
    {"t4", "Tesla T4", 75, 40, 1590 * megahertz, 5001 * megahertz, 256, 4 * mib, 15 * gib},
};

}  // namespace

// Newer chips than the table's are taken for the last one before them.
RatesPerClock rates_per_clock(int capability, std::string_view device_name) {
  const auto newer =
      std::ranges::upper_bound(architectures, capability, {}, &Architecture::capability);
  if (newer == std::begin(architectures)) return architectures[0].rates;
  const Architecture& found = *(newer - 1);
  RatesPerClock rates = found.rates;
  if (found.geforce_halves && device_name.find("GeForce") != std::string_view::npos) {
    rates.b16 /= 2;
    rates.tf32 /= 2;
  }
  return rates;
}

Device device_of(const Chip& chip, int index) {
  const RatesPerClock rates = rates_per_clock(chip.capability, chip.device_name);
  Device device;
  device.backend = Backend::cuda;
  device.index = index;
  device.name = chip.device_name;
  device.features = text("sm_", chip.capability);
  device.multiprocessors = chip.multiprocessors;
  Limits& limits = device.nominal;
  limits.f32_flops = chip.clock * chip.multiprocessors * rates.f32;
  limits.matrix_flops = chip.clock * chip.multiprocessors * rates.b16;
  limits.read_bandwidth = 2 * chip.memory_clock * chip.bus_bits / 8;  // double data rate
  limits.copy_bandwidth = limits.read_bandwidth;
  limits.memory_bytes = chip.memory_bytes;
  limits.cache_bytes = chip.cache_bytes;
  return device;
}

std::span<const Chip> chips() { return table; }

int capability_of(const Device& device) {
  constexpr std::string_view prefix = "sm_";
  const std::string_view features = device.features;
  int capability = 0;
  if (features.starts_with(prefix))
    std::from_chars(features.data() + prefix.size(), features.data() + features.size(), capability);
  return capability;
}

}  // namespace rapt::cuda
