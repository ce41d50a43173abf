#include "src/cpu/device.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <optional>

#include "src/core/environment.hpp"
#include "src/core/fault.hpp"
#include "src/core/text.hpp"
#include "src/cpu/merge.hpp"
#include "src/cpu/quota.hpp"
#include "src/cpu/simd/targets.hpp"
#include "src/cpu/thread_pool.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#include <sys/prctl.h>
#endif

namespace rapt {
namespace {

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name"))
      return line.substr(std::min(line.find(": ") + 2, line.size()));
  }
  return "CPU";
}

#if defined(__x86_64__)
// The kernel must grant a process the AMX tile registers before their first use.
bool amx_granted() {
  constexpr long request_permission = 0x1023,
                 tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

bool has_amx_bf16() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  const bool amx_tile = d >> 24 & 1, amx_bf16 = d >> 22 & 1;
  return amx_tile && amx_bf16 && amx_granted();
}

std::string processor_features() {
  __builtin_cpu_init();
  std::string features;
  const auto add = [&](std::string_view name, bool present) {
    if (present) features += text(features.empty() ? "" : " ", name);
  };
  add("avx2", __builtin_cpu_supports("avx2"));
  add("fma", __builtin_cpu_supports("fma"));
  add("f16c", processor_has_f16c());
  add("avx512f", __builtin_cpu_supports("avx512f"));
  add("avx512bf16", __builtin_cpu_supports("avx512bf16"));
  add("amx_bf16", has_amx_bf16());
  return features;
}
#elif defined(__aarch64__)
std::string processor_features() {
  const bool sve = getauxval(AT_HWCAP) & HWCAP_SVE;
  return sve ? "neon sve" : "neon";
}
#else
std::string processor_features() { return ""; }
#endif

// f32 values in the processor's widest vectors; with SVE that is the system's choice.
double vector_lanes(const Device& device) {
#if defined(__aarch64__)
  if (device.has("sve")) return double(prctl(PR_SVE_GET_VL) & PR_SVE_VL_LEN_MASK) / sizeof(float);
#endif
  return device.has("avx512f") ? 16 : device.has("avx2") ? 8 : 4;
}

// Data-sheet figures of a server core at 3 GHz with two FMA units, and of a socket's memory: rough,
// but the same on every run, so that the same machine always chooses the same kernel. `rapt devices
// --measure` finds the real ones.
Limits nominal_limits(const Device& device) {
  constexpr double clock = 3e9;
  Limits limits;
  limits.f32_flops = device.threads * clock * 2 * 2 * vector_lanes(device);
  // Of bf16: tiles, or vectors that multiply twice as many elements as in f32.
  limits.matrix_flops = device.has("amx_bf16")     ? device.threads * clock * 2 * 512
                        : device.has("avx512bf16") ? 2 * limits.f32_flops
                                                   : 0;
  limits.read_bandwidth = std::min(12e9 * device.threads, 200e9);
  limits.copy_bandwidth = limits.read_bandwidth;
  limits.memory_bytes = double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGESIZE));
  limits.cache_bytes = std::max(0L, sysconf(_SC_LEVEL3_CACHE_SIZE));
  return limits;
}

std::vector<Device> cpu_devices() { return {cpu_device(0)}; }

constexpr std::align_val_t alignment{64};

// What exceeds the machine is refused here: the system would promise it, and fail at its first use.
void* allocate(const Device& device, std::size_t bytes) {
  const double limit = device.nominal.memory_bytes;  // 0: unknown
  const bool possible = limit == 0 || double(bytes) <= limit;
  void* memory = possible ? ::operator new(bytes, alignment, std::nothrow) : nullptr;
  if (!memory)
    throw Error(ErrorCode::out_of_memory,
                text("no memory for ", human_bytes(double(bytes)), " on the CPU"));
  return memory;
}

void release(const Device&, void* memory) noexcept { ::operator delete(memory, alignment); }

void copy(const Device&, void* target, const void* source, std::size_t bytes) {
  std::memcpy(target, source, bytes);
}

void wait(const Device&, void*) {}

}  // namespace

std::int32_t available_processors() {
  static const std::optional<int> quota = processor_quota();
  cpu_set_t set;
  const bool known = sched_getaffinity(0, sizeof set, &set) == 0;
  const auto count = known ? CPU_COUNT(&set) : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  return std::max(1, std::min(count, quota.value_or(count)));
}

Device cpu_device(std::int32_t threads) {
  if (threads < 0 || threads > most_threads) {
    fault("a CPU device with ", threads, " threads was asked for; 1 to ", most_threads,
          " are possible");
  }
  simd_allowed(Simd::scalar);  // says so if RAPT_SIMD is wrong
  static const std::string name = processor_name(), features = processor_features();
  Device device;
  device.backend = Backend::cpu;
  device.name = name;
  device.features = features;
  device.threads = threads > 0 ? threads : environment_threads().value_or(available_processors());
  device.nominal = nominal_limits(device);
  return device;
}

const BackendOperations cpu_backend = {
    .backend = Backend::cpu,
    .devices = cpu_devices,
    .allocate = allocate,
    .release = release,
    .copy_to_device = copy,
    .copy_to_host = copy,
    .wait = wait,
    .merge = merge_on_cpu,
};

}  // namespace rapt
