// Read and copy bandwidth of main memory: in each trial every thread streams through a part of its
// own of the next piece of memory. Coming round to a piece again, the caches have long lost it.
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <span>

#include "cli/limits/measure.hpp"

namespace rapt::cli {
namespace {

constexpr double mebibyte = 1 << 20;
constexpr std::size_t huge_page = std::size_t{2} << 20, cache_line = 64;
constexpr std::size_t pieces = 8, timed_rounds = 4;

// Four times the last cache leaves nothing of it to reuse. The operating system reports one cache
// where a chip has several, each near some cores: hence the share of each thread.
std::size_t working_set(const Limits& nominal, std::int32_t threads) {
  const double wanted =
      std::max({256 * mebibyte, 4 * nominal.cache_bytes, 32 * mebibyte * threads});
  const double bytes = std::min(wanted, nominal.memory_bytes / 4);
  return std::max<std::size_t>(static_cast<std::size_t>(bytes) / huge_page, 1) * huge_page;
}

std::uint64_t sum(std::span<const std::uint64_t> words) {
  std::uint64_t total = 0;
  for (const std::uint64_t word : words) total += word;
  return total;
}

}  // namespace

MemoryMeasurement::MemoryMeasurement(const Device& device, std::int32_t most_threads)
    : bytes_(working_set(device.nominal, most_threads)),
      memory_(static_cast<std::byte*>(std::aligned_alloc(huge_page, bytes_)), std::free) {
  if (!memory_) throw std::bad_alloc();
  madvise(memory_.get(), bytes_, MADV_HUGEPAGE);
  // One round gives the memory its pages, near the threads that use them.
  best_bandwidth(most_threads, 1,
                 [](std::byte* begin, std::size_t bytes) { std::memset(begin, 1, bytes); });
}

double MemoryMeasurement::best_bandwidth(std::int32_t threads, std::size_t rounds,
                                         const Pass& pass) const {
  const std::size_t piece = bytes_ / pieces;
  const std::size_t share =
      piece / static_cast<std::size_t>(threads) / (2 * cache_line) * (2 * cache_line);
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t trial = 0; trial < pieces * rounds; ++trial) {
    std::byte* begin = memory_.get() + trial % pieces * piece;
    const auto work = [&](std::int32_t thread) {
      pass(begin + static_cast<std::size_t>(thread) * share, share);
    };
    best = std::min(best, seconds_on_threads(threads, work));
  }
  return threads * static_cast<double>(share) / best;
}

double MemoryMeasurement::read_bandwidth(std::int32_t threads) const {
  return best_bandwidth(threads, timed_rounds, [](const std::byte* begin, std::size_t bytes) {
    const auto* words = reinterpret_cast<const std::uint64_t*>(begin);
    const std::uint64_t total = sum({words, bytes / sizeof *words});
    asm volatile("" : : "r"(total));
  });
}

double MemoryMeasurement::copy_bandwidth(std::int32_t threads) const {
  return best_bandwidth(threads, timed_rounds, [](std::byte* begin, std::size_t bytes) {
    std::memcpy(begin + bytes / 2, begin, bytes / 2);
  });
}

}  // namespace rapt::cli
