// The rate of bf16 products. On AMX: 2 × 2 tiles of results from 2 + 2 tiles of operands that are
// loaded from the first cache each round, as a kernel would. By AVX-512's dot products: independent
// chains of them in registers.
#include "cli/limits/measure.hpp"

#if defined(__x86_64__)
#include <array>

#include "src/cpu/amx.hpp"
#endif

namespace rapt::cli {
namespace {

#if defined(__x86_64__)
constexpr std::size_t tile_rows = 16, tile_row_bytes = 64;
constexpr double flops_per_product = 2.0 * 16 * 16 * 32;  // (16, 32) · (32, 16) in bf16

void multiply_tiles(std::int64_t rounds) {
  alignas(64) std::array<std::array<std::byte, tile_rows * tile_row_bytes>, 4> operands = {};
  AmxTiles::enter();
  AmxTiles::zero<0>();
  AmxTiles::zero<1>();
  AmxTiles::zero<2>();
  AmxTiles::zero<3>();
  for (std::int64_t round = 0; round < rounds; ++round) {
    AmxTiles::load<4>(operands[0].data(), tile_row_bytes);
    AmxTiles::load<5>(operands[1].data(), tile_row_bytes);
    AmxTiles::load<6>(operands[2].data(), tile_row_bytes);
    AmxTiles::load<7>(operands[3].data(), tile_row_bytes);
    AmxTiles::multiply<0, 4, 6>();
    AmxTiles::multiply<1, 4, 7>();
    AmxTiles::multiply<2, 5, 6>();
    AmxTiles::multiply<3, 5, 7>();
  }
  AmxTiles::leave();
}

constexpr int chains = 12;
constexpr double flops_per_dot_product = 2.0 * 2 * 16;

[[gnu::target("avx512f")]] void multiply_pairs(std::int64_t rounds) {
  using Vector = float __attribute__((vector_size(64)));
  Vector sums[chains] = {};
  const Vector factors = {};  // of zeros: sums stay what they are, at the same speed
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < chains; ++i)
      asm volatile("vdpbf16ps %1, %1, %0" : "+v"(sums[i]) : "v"(factors));
  }
}
#endif

}  // namespace

double measure_matrix_flops(const Device& device, std::int32_t threads) {
#if defined(__x86_64__)
  if (device.has("amx_bf16"))
    return threads * 4 * flops_per_product * rounds_per_second(threads, multiply_tiles);
  if (device.has("avx512bf16"))
    return threads * chains * flops_per_dot_product * rounds_per_second(threads, multiply_pairs);
#endif
  static_cast<void>(device);
  static_cast<void>(threads);
  return 0;
}

}  // namespace rapt::cli
