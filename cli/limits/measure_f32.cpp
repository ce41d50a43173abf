// The rate of f32 multiply-adds: independent chains of them in registers, as many as it takes to
// hide their latency (2 units × 4 or 5 cycles), with no memory in between.
#include "cli/limits/measure.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace rapt::cli {
namespace {

// Each chain converges on addend / (1 − factor) = 2: no overflow, no denormals. None starts there,
// or compilers would see that it stays.
constexpr float factor = 0.5f, addend = 1.0f;
constexpr float start(int chain) { return static_cast<float>(chain) + 0.25f; }

// Few enough for registers, and for unrolling completely, which keeps them there.
constexpr int chains = 12;

// The compiler has to believe that somebody looks at the value.
void keep(float value) { asm volatile("" : : "m"(value) : "memory"); }

struct Loop {
  void (*run)(std::int64_t rounds);
  double flops_per_round;
};

#if defined(__x86_64__)
[[gnu::target("avx512f")]] void multiply_add_avx512(std::int64_t rounds) {
  __m512 sums[chains];
  for (int i = 0; i < chains; ++i) sums[i] = _mm512_set1_ps(start(i));
  const __m512 by = _mm512_set1_ps(factor), plus = _mm512_set1_ps(addend);
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < chains; ++i) sums[i] = _mm512_fmadd_ps(sums[i], by, plus);
  }
  for (int i = 1; i < chains; ++i) sums[0] = _mm512_add_ps(sums[0], sums[i]);
  keep(_mm512_cvtss_f32(sums[0]));
}

[[gnu::target("avx2,fma")]] void multiply_add_avx2(std::int64_t rounds) {
  __m256 sums[chains];
  for (int i = 0; i < chains; ++i) sums[i] = _mm256_set1_ps(start(i));
  const __m256 by = _mm256_set1_ps(factor), plus = _mm256_set1_ps(addend);
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < chains; ++i) sums[i] = _mm256_fmadd_ps(sums[i], by, plus);
  }
  for (int i = 1; i < chains; ++i) sums[0] = _mm256_add_ps(sums[0], sums[i]);
  keep(_mm256_cvtss_f32(sums[0]));
}
#endif

// Vectors of four, which the compiler knows on every chip (SSE2, NEON).
void multiply_add_baseline(std::int64_t rounds) {
  using Vector = float __attribute__((vector_size(16)));
  Vector sums[chains];
  for (int i = 0; i < chains; ++i) sums[i] = Vector{} + start(i);
  const Vector by = Vector{} + factor, plus = Vector{} + addend;
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < chains; ++i) sums[i] = sums[i] * by + plus;
  }
  for (int i = 1; i < chains; ++i) sums[0] += sums[i];
  keep(sums[0][0]);
}

// A round is one multiply-add in every lane of every chain.
Loop best_loop([[maybe_unused]] const Device& device) {
#if defined(__x86_64__)
  if (device.has("avx512f")) return {multiply_add_avx512, 2.0 * 16 * chains};
  if (device.has("avx2") && device.has("fma")) return {multiply_add_avx2, 2.0 * 8 * chains};
#endif
  return {multiply_add_baseline, 2.0 * 4 * chains};
}

}  // namespace

double measure_f32_flops(const Device& device, std::int32_t threads) {
  const Loop loop = best_loop(device);
  return threads * loop.flops_per_round * rounds_per_second(threads, loop.run);
}

}  // namespace rapt::cli
