#include "src/cpu/simd/targets.hpp"

#include <string>

#include "src/core/environment.hpp"
#include "src/core/fault.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace rapt {

bool processor_has_f16c() {
#if defined(__x86_64__)
  // Asked once: every run chooses its code by this, and a virtual machine answers in microseconds.
  static const bool has = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
  }();
  return has;
#else
  return false;
#endif
}

namespace {

bool processor_has(Simd level) {
  switch (level) {
    case Simd::scalar: return true;
#if defined(__x86_64__)
    case Simd::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
             __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
             processor_has_f16c();
    case Simd::avx512:
      return processor_has(Simd::avx2) && __builtin_cpu_supports("avx512f") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#elif defined(__aarch64__)
    case Simd::neon: return true;
    case Simd::sve: return getauxval(AT_HWCAP) >> 22 & 1;  // HWCAP_SVE
#endif
    default: return false;
  }
}

// The level that RAPT_SIMD names; the highest if it is not set.
Simd wanted_level() {
  const std::string name = environment_text("RAPT_SIMD");
  if (name.empty()) return Simd::sve;
  if (name == "scalar") return Simd::scalar;
  if (name == "avx2") return Simd::avx2;
  if (name == "avx512") return Simd::avx512;
  if (name == "neon") return Simd::neon;
  if (name == "sve") return Simd::sve;
  fault("RAPT_SIMD is '", name, "'; it can be scalar, avx2, avx512, neon or sve");
}

}  // namespace

bool simd_allowed(Simd level) {
  static const Simd wanted = wanted_level();
  return level <= wanted && processor_has(level);
}

}  // namespace rapt
