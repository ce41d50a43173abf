// The list of kernels for the tests of bf16's kernels on machines without AMX or AVX512-BF16: the
// same kernels over models of the tile unit and of dot products, written from the manual's
// description of their instructions.
#include "src/library/registry.hpp"

#include <array>
#include <cstring>

#include "src/cpu/simd/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/tiles/registry.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "src/cpu/amx_products-inl.hpp"
#include "src/cpu/backward_engine_bf16-inl.hpp"
#include "src/cpu/dot_products-inl.hpp"
#include "src/cpu/engine_bf16-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace rapt::HWY_NAMESPACE {
namespace {

struct ModelTiles {
  using Tile = std::array<std::array<std::byte, 64>, 16>;
  static inline thread_local std::array<Tile, 8> tiles = {};
  static inline thread_local bool configured = false;

  static void require_configured() {
    if (!configured) __builtin_trap();  // as the processor does
  }
  static void enter() { configured = true; }
  static void leave() { configured = false; }

  template <int tile>
  static void zero() {
    require_configured();
    tiles[tile] = {};
  }
  template <int tile>
  static void load(const void* from, std::int64_t row_bytes) {
    require_configured();
    for (std::int64_t row = 0; row < 16; ++row)
      std::memcpy(tiles[tile][std::size_t(row)].data(),
                  static_cast<const std::byte*>(from) + row * row_bytes, 64);
  }
  template <int tile>
  static void store(void* to, std::int64_t row_bytes) {
    require_configured();
    for (std::int64_t row = 0; row < 16; ++row)
      std::memcpy(static_cast<std::byte*>(to) + row * row_bytes,
                  tiles[tile][std::size_t(row)].data(), 64);
  }
  template <int sum, int a, int b>
  static void multiply() {
    require_configured();
    float sums[16][16];
    BF16 left[16][32], right[16][32];
    std::memcpy(sums, &tiles[sum], sizeof sums);
    std::memcpy(left, &tiles[a], sizeof left);
    std::memcpy(right, &tiles[b], sizeof right);
    for (int m = 0; m < 16; ++m) {
      for (int k = 0; k < 16; ++k) {
        const float even = to_float(left[m][2 * k]), odd = to_float(left[m][2 * k + 1]);
        for (int n = 0; n < 16; ++n)
          sums[m][n] += even * to_float(right[k][2 * n]) + odd * to_float(right[k][2 * n + 1]);
      }
    }
    std::memcpy(&tiles[sum], sums, sizeof sums);
  }
};

struct ModelDot {
  static HWY_INLINE void add(const SixteenPairs& a, const SixteenPairs& b, SixteenFloats& sums) {
    sums += (SixteenFloats)(a & 0xffff0000u) * (SixteenFloats)(b & 0xffff0000u);
    sums += (SixteenFloats)(a << 16) * (SixteenFloats)(b << 16);
  }
};

struct ModelRounding {
  static HWY_INLINE void store_rounded(FloatVector low, FloatVector high, BF16* to) {
    const Floats d;
    HWY_ALIGN float weights[2 * hn::MaxLanes(Floats())];
    const std::size_t lanes = hn::Lanes(d);
    hn::StoreU(low, d, weights);
    hn::StoreU(high, d, weights + lanes);
    for (std::size_t i = 0; i < 2 * lanes; ++i) to[i] = from_float<BF16>(weights[i]);
  }
  static HWY_INLINE void add_rounded(FloatVector low, FloatVector high, BF16* to,
                                     FloatVector& sums) {
    const Floats d;
    HWY_ALIGN float halves[2 * hn::MaxLanes(Floats())];
    const std::size_t lanes = hn::Lanes(d);
    store_rounded(low, high, to);
    for (std::size_t i = 0; i < 2 * lanes; ++i) halves[i] = to_float(to[i]);
    sums = hn::Add(sums, hn::Add(hn::Load(d, halves), hn::Load(d, halves + lanes)));
  }
  static HWY_INLINE void store_pairs(FloatVector even, FloatVector odd, BF16* to) {
    const Floats d;
    HWY_ALIGN BF16 apart[2 * hn::MaxLanes(Floats())];
    const std::size_t lanes = hn::Lanes(d);
    store_rounded(even, odd, apart);
    for (std::size_t i = 0; i < 2 * lanes; ++i) to[i] = apart[i / 2 + i % 2 * lanes];
  }
};

struct TileUnit : AmxProducts<ModelTiles>, ModelRounding {};
struct DotUnit : DotProducts<ModelDot>, ModelRounding {};

}  // namespace

const Engine& model_tile_engine() { return TileEngine<TileUnit>::engine(); }
const BackwardEngine& model_tile_backward_engine() { return TileBackward<TileUnit>::engine(); }
const Engine& model_dot_engine() { return TileEngine<DotUnit>::engine(); }
const BackwardEngine& model_dot_backward_engine() { return TileBackward<DotUnit>::engine(); }

}  // namespace rapt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "src/cpu/backward_driver.hpp"
#include "src/cpu/flash_driver.hpp"
#include "src/cpu/kernels.hpp"
#include "src/oracle/oracle.hpp"
#include "src/oracle/pair_gradients.hpp"

namespace rapt {
namespace {

const Engine& tiles() { RAPT_BEST_TARGET(model_tile_engine()); }
const Engine& dots() { RAPT_BEST_TARGET(model_dot_engine()); }
const BackwardEngine& backward_tiles() { RAPT_BEST_TARGET(model_tile_backward_engine()); }
const BackwardEngine& backward_dots() { RAPT_BEST_TARGET(model_dot_backward_engine()); }

std::vector<Config> configs(const Problem&, const Device&) {
  return {{{{"rows", 128}, {"keys", 512}}}, {{{"rows", 64}, {"keys", 64}}}};
}

Estimate estimate(const Task&) { return {1, "compute"}; }

template <const Engine& (*engine)()>
constexpr Kernel flash_on(std::string_view name, std::string_view summary) {
  return {
      .name = name,
      .summary = summary,
      .backend = Backend::cpu,
      .row_invariant = true,
      .by_name_only = false,
      .supports = [](const Problem& problem, const Device& device) -> Support {
        if (problem.dtype != DType::bf16) return Support::no("it computes in bf16 only");
        return flash_support(problem, device, engine(), {128, 512});
      },
      .configs = configs,
      .estimate = estimate,
      .workspace = [](const Task& task) { return flash_workspace(task, engine()); },
      .prepare = [](const Task& task) { return prepare_flash(task, engine()); },
  };
}

template <const BackwardEngine& (*engine)()>
constexpr Kernel flash_backward_on(std::string_view name, std::string_view summary) {
  return {
      .name = name,
      .summary = summary,
      .backend = Backend::cpu,
      .operation = Operation::backward,
      .by_name_only = false,
      .supports = [](const Problem& problem, const Device& device) -> Support {
        if (problem.dtype != DType::bf16 || problem.out_dtype != DType::bf16)
          return Support::no("it computes in bf16 only");
        return backward_support(problem, device, engine());
      },
      .configs = one_empty_config,
      .estimate = estimate,
      .workspace = [](const Task& task) { return backward_workspace(task, engine()); },
      .prepare = [](const Task& task) { return prepare_backward(task, engine()); },
  };
}

constexpr Kernel flash_tiles = flash_on<tiles>("cpu.flash_tiles", "flash on a model of AMX tiles");
constexpr Kernel flash_dots = flash_on<dots>("cpu.flash_dots", "flash on a model of dot products");
constexpr Kernel flash_tiles_backward = flash_backward_on<backward_tiles>(
    "cpu.flash_tiles_backward", "flash backward on a model of AMX tiles");
constexpr Kernel flash_dots_backward = flash_backward_on<backward_dots>(
    "cpu.flash_dots_backward", "flash backward on a model of dot products");

}  // namespace

std::span<const Kernel* const> registered_kernels() {
  static constexpr const Kernel* list[] = {
      &cpu_oracle, &cpu_oracle_backward,  &cpu_naive_backward, &flash_tiles,
      &flash_dots, &flash_tiles_backward, &flash_dots_backward};
  return list;
}

}  // namespace rapt
#endif
