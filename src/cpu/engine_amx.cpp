// The matrix engines on AMX, forward's and backward's. Processors with AMX have AVX-512 and its
// bf16 conversions too.
#include "src/cpu/simd/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/cpu/engine_amx.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "src/cpu/amx.hpp"
#include "src/cpu/backward_engine_amx-inl.hpp"
#include "src/cpu/engine_amx-inl.hpp"

#if HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace rapt::HWY_NAMESPACE {
namespace {

struct RoundingTiles : AmxTiles {
  // Two vectors rounded to bf16, ties to even.
  static HWY_INLINE void store_rounded(FloatVector low, FloatVector high, BF16* to) {
    _mm512_store_si512(to, rounded(low, high));
  }
  // The same, element beside element.
  static HWY_INLINE void store_pairs(FloatVector even, FloatVector odd, BF16* to) {
    alignas(64) static constexpr std::array<std::uint16_t, 32> order = [] {
      std::array<std::uint16_t, 32> places = {};
      for (std::size_t i = 0; i < 32; ++i)
        places[i] = static_cast<std::uint16_t>(i / 2 + i % 2 * 16);
      return places;
    }();
    _mm512_store_si512(
        to, _mm512_permutexvar_epi16(_mm512_load_si512(order.data()), rounded(even, odd)));
  }

 private:
  static HWY_INLINE __m512i rounded(FloatVector low, FloatVector high) {
    __m512i packed;
    asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(packed) : "v"(high.raw), "v"(low.raw));
    return packed;
  }
};

}  // namespace

const Engine& tile_engine() { return TileEngine<RoundingTiles>::engine(); }
const BackwardEngine& tile_backward_engine() { return TileBackward<RoundingTiles>::engine(); }

}  // namespace rapt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace rapt {

const Engine* amx_engine() {
#if HWY_TARGETS & HWY_AVX3
  if (simd_allowed(Simd::avx512)) return &N_AVX3::tile_engine();
#endif
  return nullptr;
}

const BackwardEngine* amx_backward_engine() {
#if HWY_TARGETS & HWY_AVX3
  if (simd_allowed(Simd::avx512)) return &N_AVX3::tile_backward_engine();
#endif
  return nullptr;
}

}  // namespace rapt
#endif
