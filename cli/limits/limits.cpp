#include "cli/limits/limits.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "cli/limits/limits_cache.hpp"
#include "cli/limits/measure.hpp"
#include "cli/progress.hpp"
#include "src/core/text.hpp"
#include "src/library/registry.hpp"

namespace rapt::cli {
namespace {

// Whatever RAPT_THREADS and --threads say.
std::int32_t available_processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return static_cast<std::int32_t>(std::max(1U, std::thread::hardware_concurrency()));
}

// A build without optimisation, or with a sanitizer, does not reach what the chip does.
constexpr bool full_speed_build =
#if !defined(__OPTIMIZE__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    false;
#else
    true;
#endif
#else
    true;
#endif

std::string machine_key(const Device& device) {
  if (device.backend != Backend::cpu) return fmt::format("{}, {}", device.name, width_of(device));
  return fmt::format("{}, {} processors{}", device.name, available_processors(),
                     full_speed_build ? "" : ", debugging build");
}

MeasuredLimits measure_gpu(const Device& device) {
  Progress progress(1);
  progress.show(0, fmt::format("measuring {}", device.to_string()));
  MeasuredLimits limits;
  limits.all_threads = find_backend(device.backend).measure(device);
  return limits;
}

MeasuredLimits measure_cpu(const Device& device) {
  MeasuredLimits limits;
  limits.threads = available_processors();
  Progress progress(5);
  // All threads together reach at least what one of them does, whatever a busy machine says.
  const auto fill = [&](double Rates::*rate, const std::function<double(std::int32_t)>& reached) {
    limits.one_thread.*rate = reached(1);
    limits.all_threads.*rate = std::max(reached(limits.threads), limits.one_thread.*rate);
  };
  progress.show(0, "measuring f32 multiply-adds");
  fill(&Rates::f32_flops, [&](std::int32_t n) { return measure_f32_flops(device, n); });
  progress.show(1, "measuring products of bf16");
  fill(&Rates::matrix_flops, [&](std::int32_t n) { return measure_matrix_flops(device, n); });
  progress.show(2, "measuring reads of memory");
  const MemoryMeasurement memory(device, limits.threads);
  fill(&Rates::read_bandwidth, [&](std::int32_t n) { return memory.read_bandwidth(n); });
  progress.show(3, "measuring copies in memory");
  fill(&Rates::copy_bandwidth, [&](std::int32_t n) { return memory.copy_bandwidth(n); });
  progress.show(4, "measuring the dispatch of a job");
  limits.dispatch_seconds = measure_dispatch_seconds(limits.threads);
  return limits;
}

}  // namespace

std::string width_of(const Device& device) {
  return device.backend == Backend::cpu ? counted(device.threads, "thread")
                                        : counted(device.multiprocessors, "multiprocessor");
}

bool can_measure(const Device& device) {
  return device.backend == Backend::cpu || find_backend(device.backend).measure;
}

std::optional<MeasuredLimits> cached_limits(const Device& device) {
  if (!can_measure(device)) return std::nullopt;
  return remembered_limits(machine_key(device));
}

MeasuredLimits measured_limits(const Device& device, Freshness freshness) {
  if (!can_measure(device)) {
    throw Error(ErrorCode::unsupported,
                fmt::format("rapt cannot measure the limits of {}; it uses the nominal ones",
                            device.to_string()));
  }
  if (freshness == Freshness::cached) {
    if (const auto remembered = cached_limits(device)) return *remembered;
  }
  const MeasuredLimits limits =
      device.backend == Backend::cpu ? measure_cpu(device) : measure_gpu(device);
  remember_limits(machine_key(device), limits);
  return limits;
}

Limits roof_limits(const Device& device, Freshness freshness) {
  Limits limits = device.nominal;
  if (!can_measure(device)) return limits;
  const MeasuredLimits measured = measured_limits(device, freshness);
  const auto reach = [&](double Limits::*limit, double Rates::*rate) {
    const double one = measured.one_thread.*rate, all = measured.all_threads.*rate;
    if (all == 0) return;
    const bool whole = device.backend != Backend::cpu || device.threads >= measured.threads;
    limits.*limit = whole ? all : std::min(one * device.threads, all);
  };
  reach(&Limits::f32_flops, &Rates::f32_flops);
  reach(&Limits::matrix_flops, &Rates::matrix_flops);
  reach(&Limits::read_bandwidth, &Rates::read_bandwidth);
  reach(&Limits::copy_bandwidth, &Rates::copy_bandwidth);
  return limits;
}

}  // namespace rapt::cli
