// Which instruction sets vector code is compiled for, and which of them this processor runs.
//
// Vector code is written once, with Google Highway (headers only), in files that Highway includes
// once per target (hwy/foreach_target.h); each target's functions live in a namespace of its own.
// Such a file ends with a table of function pointers per target, and RAPT_BEST_TARGET(table) picks
// one at run time. RAPT_SIMD=scalar|avx2|avx512|neon|sve forces a lesser one, for tests.
#pragma once

// No others: the levels between these bring nothing to f32 arithmetic, and each costs a compilation
// (newer Highways have more of them). Without AVX2 the scalar code is what there is; builds that
// test something else than arithmetic compile no more than that.
#if defined(RAPT_SCALAR_ONLY)
#define HWY_DISABLED_TARGETS (~HWY_SCALAR)
#else
#define HWY_DISABLED_TARGETS (~(HWY_AVX2 | HWY_AVX3 | HWY_NEON | HWY_SVE | HWY_SCALAR))
#endif
// The same scalar code from every compiler, not vectors emulated by loops where those compile.
#define HWY_BROKEN_EMU128 1
// Scalar code beside NEON, so that the fallback is tested on every chip.
#define HWY_COMPILE_ALL_ATTAINABLE

#include <hwy/detect_targets.h>

namespace rapt {

enum class Simd { scalar, avx2, avx512, neon, sve };

// Whether the processor and RAPT_SIMD allow this level.
bool simd_allowed(Simd level);

bool processor_has_f16c();  // which no compiler builtin tells everywhere

}  // namespace rapt

#if HWY_TARGETS & HWY_AVX3
#define RAPT_TRY_AVX512(table) \
  if (rapt::simd_allowed(rapt::Simd::avx512)) return N_AVX3::table;
#else
#define RAPT_TRY_AVX512(table)
#endif
#if HWY_TARGETS & HWY_AVX2
#define RAPT_TRY_AVX2(table) \
  if (rapt::simd_allowed(rapt::Simd::avx2)) return N_AVX2::table;
#else
#define RAPT_TRY_AVX2(table)
#endif
#if HWY_TARGETS & HWY_SVE
#define RAPT_TRY_SVE(table) \
  if (rapt::simd_allowed(rapt::Simd::sve)) return N_SVE::table;
#else
#define RAPT_TRY_SVE(table)
#endif
#if HWY_TARGETS & HWY_NEON
#define RAPT_TRY_NEON(table) \
  if (rapt::simd_allowed(rapt::Simd::neon)) return N_NEON::table;
#else
#define RAPT_TRY_NEON(table)
#endif

// The body of a function that returns the best target's `table`.
#define RAPT_BEST_TARGET(table) \
  RAPT_TRY_AVX512(table)        \
  RAPT_TRY_AVX2(table)          \
  RAPT_TRY_SVE(table)           \
  RAPT_TRY_NEON(table)          \
  return N_SCALAR::table
