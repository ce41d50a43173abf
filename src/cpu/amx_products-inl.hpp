// Products of bf16 tiles by AMX, or by anything that has its instructions: `Tiles` is AmxTiles
// (amx.hpp), or a model of it in the tests.
//
// Included once per target by files that include hwy/foreach_target.h.
#if defined(RAPT_AMX_PRODUCTS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef RAPT_AMX_PRODUCTS_INL
#undef RAPT_AMX_PRODUCTS_INL
#else
#define RAPT_AMX_PRODUCTS_INL
#endif

#include "src/cpu/engine_bf16_softmax-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace rapt::HWY_NAMESPACE {

template <class Tiles>
struct AmxProducts : TileShape {
  static void enter() { Tiles::enter(); }
  static void leave() { Tiles::leave(); }

  // sums (32, 32), `stride` floats from row to row, = or += A (steps, 2 row tiles) · B (2 column
  // tiles, steps), whose second column tile is b_stride bytes further. Four tiles of sums are in
  // the registers, and every tile loaded is used twice. Calls `beside` in each step, while the tile
  // unit is busy; after the last one, too, for it takes a while until sums can be stored.
  template <Into into, class Beside>
  static HWY_INLINE void multiply(const std::byte* a, const std::byte* b, Index b_stride,
                                  Index steps, float* sums, Index stride, Beside beside) {
    if constexpr (into == Into::add)
      load_sums(sums, stride);
    else
      zero_sums();
    for (Index i = 0; i < steps; ++i, a += group_step_bytes, b += tile_bytes) {
      Tiles::template load<4>(a, 64);
      Tiles::template load<6>(b, 64);
      Tiles::template multiply<0, 4, 6>();
      Tiles::template load<5>(a + tile_bytes, 64);
      Tiles::template multiply<2, 5, 6>();
      Tiles::template load<7>(b + b_stride, 64);
      Tiles::template multiply<1, 4, 7>();
      Tiles::template multiply<3, 5, 7>();
      beside();
    }
    store_sums(sums, stride);
  }

 private:
  // Sums stand in tmm0 … tmm3 (2, 2 tiles).
  static HWY_INLINE void zero_sums() {
    Tiles::template zero<0>();
    Tiles::template zero<1>();
    Tiles::template zero<2>();
    Tiles::template zero<3>();
  }
  static HWY_INLINE void load_sums(const float* from, Index stride) {
    const Index row_bytes = stride * Index{sizeof(float)};
    Tiles::template load<0>(from, row_bytes);
    Tiles::template load<1>(from + tile_rows, row_bytes);
    Tiles::template load<2>(from + tile_rows * stride, row_bytes);
    Tiles::template load<3>(from + tile_rows * stride + tile_rows, row_bytes);
  }
  static HWY_INLINE void store_sums(float* to, Index stride) {
    const Index row_bytes = stride * Index{sizeof(float)};
    Tiles::template store<0>(to, row_bytes);
    Tiles::template store<1>(to + tile_rows, row_bytes);
    Tiles::template store<2>(to + tile_rows * stride, row_bytes);
    Tiles::template store<3>(to + tile_rows * stride + tile_rows, row_bytes);
  }
};

}  // namespace rapt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
