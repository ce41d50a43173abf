// The AMX instructions on bf16 tiles, one line each. A tile is 16 rows of 64 bytes. Written as
// assembly, so that code compiled for any target can hold them; they run only where a device has
// the feature amx_bf16.
#pragma once

#include <array>
#include <cstdint>

namespace rapt {

struct alignas(64) AmxConfig {
  std::uint8_t palette = 1, start_row = 0;
  std::array<std::uint8_t, 14> reserved = {};
  std::array<std::uint16_t, 16> row_bytes = {64, 64, 64, 64, 64, 64, 64, 64};
  std::array<std::uint8_t, 16> rows = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(AmxConfig) == 64);

struct AmxTiles {
  static void enter() {
    static constexpr AmxConfig config;
    asm volatile("ldtilecfg %0" : : "m"(config));
  }
  static void leave() { asm volatile("tilerelease"); }

  template <int tile>
  static void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(tile));
  }
  template <int tile>
  static void load(const void* from, std::int64_t row_bytes) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2"
                 :
                 : "r"(from), "r"(row_bytes), "i"(tile)
                 : "memory");
  }
  template <int tile>
  static void store(void* to, std::int64_t row_bytes) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)"
                 :
                 : "r"(to), "r"(row_bytes), "i"(tile)
                 : "memory");
  }
  // sum (16, 16) f32 += a (16, 32) · b, where row i of b holds rows 2i and 2i + 1 of a (32, 16)
  // matrix, element beside element.
  template <int sum, int a, int b>
  static void multiply() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sum), "i"(a), "i"(b));
  }
};

}  // namespace rapt
