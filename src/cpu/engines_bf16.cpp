// The matrix engines on bf16, forward's and backward's: on AMX, and on AVX-512's dot products.
// Processors with either have AVX-512 and its conversions to bf16.
#include "src/cpu/simd/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/cpu/engines_bf16.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "src/cpu/amx.hpp"
#include "src/cpu/amx_products-inl.hpp"
#include "src/cpu/backward_engine_bf16-inl.hpp"
#include "src/cpu/dot_products-inl.hpp"
#include "src/cpu/engine_bf16-inl.hpp"

#if HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace rapt::HWY_NAMESPACE {
namespace {

// Instructions are written as assembly, so that code compiled for AVX-512 alone can hold them.
struct Rounding {
  // Two vectors rounded to bf16, ties to even.
  static HWY_INLINE void store_rounded(FloatVector low, FloatVector high, BF16* to) {
    _mm512_store_si512(to, rounded(low, high));
  }
  // The same; what is stored is added to sums, each of which stands for two elements.
  static HWY_INLINE void add_rounded(FloatVector low, FloatVector high, BF16* to,
                                     FloatVector& sums) {
    const __m512i pairs = rounded(low, high), ones = _mm512_set1_epi16(0x3f80);
    _mm512_store_si512(to, pairs);
    asm("vdpbf16ps %2, %1, %0" : "+v"(sums.raw) : "v"(pairs), "v"(ones));
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

struct Dot {
  static HWY_INLINE void add(const SixteenPairs& a, const SixteenPairs& b, SixteenFloats& sums) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sums) : "v"(a), "v"(b));
  }
};

struct AmxUnit : AmxProducts<AmxTiles>, Rounding {};
struct DotUnit : DotProducts<Dot>, Rounding {};

}  // namespace

const Engine& tile_engine() { return TileEngine<AmxUnit>::engine(); }
const BackwardEngine& tile_backward_engine() { return TileBackward<AmxUnit>::engine(); }
const Engine& dot_engine() { return TileEngine<DotUnit>::engine(); }
const BackwardEngine& dot_backward_engine() { return TileBackward<DotUnit>::engine(); }

}  // namespace rapt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace rapt {

#if HWY_TARGETS & HWY_AVX3
#define RAPT_IF_AVX512(engine) return simd_allowed(Simd::avx512) ? &N_AVX3::engine() : nullptr
#else
#define RAPT_IF_AVX512(engine) return nullptr
#endif

const Engine* amx_engine() { RAPT_IF_AVX512(tile_engine); }
const BackwardEngine* amx_backward_engine() { RAPT_IF_AVX512(tile_backward_engine); }
const Engine* bf16_engine() { RAPT_IF_AVX512(dot_engine); }
const BackwardEngine* bf16_backward_engine() { RAPT_IF_AVX512(dot_backward_engine); }

}  // namespace rapt
#endif
