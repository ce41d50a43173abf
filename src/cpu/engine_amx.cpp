// The matrix engine on AMX. Processors with AMX have AVX-512 and its bf16 conversions too.
#include "src/cpu/simd/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/cpu/engine_amx.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "src/cpu/amx.hpp"
#include "src/cpu/engine_amx-inl.hpp"

#if HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace rapt::HWY_NAMESPACE {
namespace {

struct RoundingTiles : AmxTiles {
  // Two vectors rounded to bf16, ties to even.
  static HWY_INLINE void store_rounded(FloatVector low, FloatVector high, BF16* to) {
    __m512i packed;
    asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(packed) : "v"(high.raw), "v"(low.raw));
    _mm512_store_si512(to, packed);
  }
};

}  // namespace

const Engine& tile_engine() { return TileEngine<RoundingTiles>::engine(); }

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

}  // namespace rapt
#endif
