// The rate of bf16 products on AMX: 2 × 2 tiles of results from 2 + 2 tiles of operands that are
// loaded from the first cache each round, as a kernel would.
#include "cli/limits/measure.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#include <array>
#endif

namespace rapt::cli {
namespace {

#if defined(__x86_64__)
constexpr std::size_t tile_rows = 16, tile_row_bytes = 64;
constexpr double flops_per_product = 2.0 * 16 * 16 * 32;  // (16, 32) · (32, 16) in bf16

struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0;
  std::array<std::uint8_t, 14> reserved = {};
  std::array<std::uint16_t, 16> row_bytes = {};
  std::array<std::uint8_t, 16> rows = {};

  TileConfig() {
    for (std::size_t tile = 0; tile < 8; ++tile) {
      row_bytes[tile] = tile_row_bytes;
      rows[tile] = tile_rows;
    }
  }
};
static_assert(sizeof(TileConfig) == 64);

[[gnu::target("amx-tile,amx-bf16")]] void multiply_tiles(std::int64_t rounds) {
  alignas(64) std::array<std::array<std::byte, tile_rows * tile_row_bytes>, 4> operands = {};
  asm volatile("" : : "r"(&operands) : "memory");
  const TileConfig config;
  _tile_loadconfig(&config);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (std::int64_t round = 0; round < rounds; ++round) {
    _tile_loadd(4, operands[0].data(), tile_row_bytes);
    _tile_loadd(5, operands[1].data(), tile_row_bytes);
    _tile_loadd(6, operands[2].data(), tile_row_bytes);
    _tile_loadd(7, operands[3].data(), tile_row_bytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, operands[0].data(), tile_row_bytes);
  asm volatile("" : : "r"(&operands) : "memory");
  _tile_release();
}
#endif

}  // namespace

double measure_matrix_flops(const Device& device, std::int32_t threads) {
#if defined(__x86_64__)
  if (device.has("amx_bf16"))
    return threads * 4 * flops_per_product * rounds_per_second(threads, multiply_tiles);
#endif
  static_cast<void>(device);
  static_cast<void>(threads);
  return 0;
}

}  // namespace rapt::cli
