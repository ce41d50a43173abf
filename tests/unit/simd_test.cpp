// The vector mathematics that kernels stand on, for every instruction set that this processor runs.
#include "src/cpu/simd/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/unit/simd_test.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstring>

#include "src/cpu/simd/pack-inl.hpp"

#ifndef RAPT_SIMD_TEST_ONCE
#define RAPT_SIMD_TEST_ONCE
namespace rapt::test {

// Functions over arrays, whatever a vector's length.
struct Operations {
  void (*exp2)(const float* from, std::size_t count, float* to);
  void (*tanh)(const float* from, std::size_t count, float* to);
  void (*load_f16)(const F16* from, std::size_t count, float* to);
  void (*load_bf16)(const BF16* from, std::size_t count, float* to);
  void (*store_f32)(const float* from, std::size_t count, float* to);
  void (*store_f16)(const float* from, std::size_t count, F16* to);
  void (*store_bf16)(const float* from, std::size_t count, BF16* to);
  void (*transpose_f32)(const void* const* rows, semantics::Range range, semantics::Index first,
                        semantics::Index count, semantics::Index width, float* panel);
  void (*transpose_f16)(const void* const* rows, semantics::Range range, semantics::Index first,
                        semantics::Index count, semantics::Index width, float* panel);
};

}  // namespace rapt::test
#endif

HWY_BEFORE_NAMESPACE();
namespace rapt::HWY_NAMESPACE {
namespace {

// to[i] = function(from[i]), a vector at a time.
template <class From, class To, class Function>
HWY_INLINE void map(const From* from, std::size_t count, To* to, Function&& function) {
  const std::size_t lanes = hn::Lanes(Floats());
  for (std::size_t i = 0; i < count; i += lanes) {
    From in[hn::MaxLanes(Floats())] = {};
    To out[hn::MaxLanes(Floats())];
    const std::size_t some = std::min(lanes, count - i);
    std::memcpy(in, from + i, some * sizeof(From));
    function(in, out);
    std::memcpy(to + i, out, some * sizeof(To));
  }
}

void all_exp2(const float* from, std::size_t count, float* to) {
  map(from, count, to, [](const float* in, float* out) HWY_ATTR {
    hn::StoreU(exp2(hn::LoadU(Floats(), in)), Floats(), out);
  });
}
void all_tanh(const float* from, std::size_t count, float* to) {
  map(from, count, to, [](const float* in, float* out) HWY_ATTR {
    hn::StoreU(tanh(hn::LoadU(Floats(), in)), Floats(), out);
  });
}
template <class Element>
void all_load(const Element* from, std::size_t count, float* to) {
  map(from, count, to, [](const Element* in, float* out) HWY_ATTR {
    hn::StoreU(load_floats(Floats(), in), Floats(), out);
  });
}
template <class Element>
void all_store(const float* from, std::size_t count, Element* to) {
  map(from, count, to,
      [](const float* in, Element* out) HWY_ATTR { store_floats(hn::LoadU(Floats(), in), out); });
}

}  // namespace

constexpr test::Operations tested_operations = {
    all_exp2,       all_tanh,        all_load<F16>,          all_load<BF16>,      all_store<float>,
    all_store<F16>, all_store<BF16>, transpose_panel<float>, transpose_panel<F16>};

}  // namespace rapt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace rapt::test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

struct Target {
  std::string name;
  Operations operations;
};

// Every one that this processor runs.
std::vector<Target> targets() {
  std::vector<Target> result;
#if HWY_TARGETS & HWY_AVX3
  if (simd_allowed(Simd::avx512)) result.push_back({"avx512", N_AVX3::tested_operations});
#endif
#if HWY_TARGETS & HWY_AVX2
  if (simd_allowed(Simd::avx2)) result.push_back({"avx2", N_AVX2::tested_operations});
#endif
#if HWY_TARGETS & HWY_SVE
  if (simd_allowed(Simd::sve)) result.push_back({"sve", N_SVE::tested_operations});
#endif
#if HWY_TARGETS & HWY_NEON
  if (simd_allowed(Simd::neon)) result.push_back({"neon", N_NEON::tested_operations});
#endif
  result.push_back({"scalar", N_SCALAR::tested_operations});
  return result;
}

using Function = void (*)(const float*, std::size_t, float*);

float apply(Function function, float x) {
  float result = 0;
  function(&x, 1, &result);
  return result;
}

// `count` numbers from `first` to `last`, both included.
std::vector<float> sweep(double first, double last, int count) {
  std::vector<float> result;
  for (int i = 0; i < count; ++i)
    result.push_back(static_cast<float>(first + (last - first) * i / (count - 1)));
  return result;
}

void expect_relative_error_below(double bound, Function function, double (*exact)(double),
                                 const std::vector<float>& arguments, const std::string& target) {
  std::vector<float> got(arguments.size());
  function(arguments.data(), arguments.size(), got.data());
  double worst = -1;
  std::size_t where = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double right = exact(arguments[i]);
    const double error = right == 0 ? std::abs(got[i]) : std::abs(got[i] - right) / std::abs(right);
    if (error <= worst) continue;
    worst = error;  // NaN, too
    where = i;
    if (std::isnan(error)) break;
  }
  EXPECT_LT(worst, bound) << target << ": f(" << arguments[where] << ") = " << got[where];
}

double exact_exp2(double x) { return std::exp2(x); }
double exact_tanh(double x) { return std::tanh(x); }

TEST(VectorExp2, IsAsExactAsItSays) {
  const std::vector<float> dense = sweep(-126, 127, 1 << 20), near_0 = sweep(-1, 1, 1 << 18);
  for (const auto& [name, operations] : targets()) {
    for (const std::vector<float>& arguments : {dense, near_0}) {
      expect_relative_error_below(2.5e-7, operations.exp2, exact_exp2, arguments, name);
    }
  }
}

TEST(VectorExp2, IsExactWhereItMustBe) {
  for (const auto& [name, operations] : targets()) {
    const Function function = operations.exp2;
    for (int whole = -126; whole <= 127; ++whole)
      EXPECT_EQ(apply(function, float(whole)), std::ldexp(1.0f, whole)) << name;
    EXPECT_EQ(apply(function, -0.0f), 1) << name;
    for (const float far : {-150.5f, -1e3f, -0x1p23f, -0x1.8p23f, -1e10f, -1e38f, -infinity})
      EXPECT_EQ(apply(function, far), 0) << name << " at " << far;
    EXPECT_TRUE(std::isnan(apply(function, nan))) << name;
  }
}

TEST(VectorTanh, IsAsExactAsItSays) {
  std::vector<float> tiny;
  for (float x = 1; x > 1e-37f; x *= 0.97f) tiny.insert(tiny.end(), {x, -x});
  for (const auto& [name, operations] : targets()) {
    for (const std::vector<float>& arguments :
         {sweep(-30, 30, 1 << 20), sweep(-1, 1, 1 << 18), tiny})
      expect_relative_error_below(4e-7, operations.tanh, exact_tanh, arguments, name);
  }
}

TEST(VectorTanh, HasItsLimits) {
  for (const auto& [name, operations] : targets()) {
    for (const float large : {20.0f, 1e3f, 1e30f, infinity}) {
      EXPECT_EQ(apply(operations.tanh, large), 1) << name << " at " << large;
      EXPECT_EQ(apply(operations.tanh, -large), -1) << name << " at " << -large;
    }
    EXPECT_EQ(apply(operations.tanh, 0), 0) << name;
    EXPECT_TRUE(std::isnan(apply(operations.tanh, nan))) << name;
  }
}

// Equal bits; any NaN equals any other.
template <class Element>
bool same(Element a, Element b) {
  if (std::isnan(to_float(a)) || std::isnan(to_float(b)))
    return std::isnan(to_float(a)) && std::isnan(to_float(b));
  return std::memcmp(&a, &b, sizeof a) == 0;
}

template <class Element>
std::vector<Element> all_16_bit_numbers() {
  std::vector<Element> result(1 << 16);
  for (std::uint32_t i = 0; i < result.size(); ++i) {
    const auto half = static_cast<std::uint16_t>(i);
    std::memcpy(&result[i], &half, sizeof half);
  }
  return result;
}

template <class Element>
void expect_every_number_widened(void (*load)(const Element*, std::size_t, float*),
                                 const std::string& target) {
  const std::vector<Element> all = all_16_bit_numbers<Element>();
  std::vector<float> got(all.size());
  load(all.data(), all.size(), got.data());
  for (std::size_t i = 0; i < all.size(); ++i)
    ASSERT_TRUE(same(got[i], to_float(all[i]))) << target << ", bits " << i << ": " << got[i];
}

TEST(VectorLoads, WidenEvery16BitNumber) {
  for (const auto& [name, operations] : targets()) {
    expect_every_number_widened(operations.load_f16, name);
    expect_every_number_widened(operations.load_bf16, name);
  }
}

// Numbers between which rounding decides: every 16-bit number, the middle between it and the next,
// and the f32 numbers just beside that.
template <class Element>
std::vector<float> numbers_to_round() {
  std::vector<float> result = {nan, infinity, -infinity, 3.4e38f, -3.4e38f, 1e-45f, -1e-45f};
  const std::vector<Element> all = all_16_bit_numbers<Element>();
  for (std::size_t i = 0; i + 1 < all.size(); ++i) {
    const float number = to_float(all[i]), next = to_float(all[i + 1]);
    result.push_back(number);
    if (!std::isfinite(number) || std::isnan(next)) continue;
    // Beyond the largest number the next one would be a step further, had it not become infinite.
    const float step = std::isfinite(next) ? next - number : number - to_float(all[i - 1]);
    const float middle = number + step / 2;
    for (const float to : {-infinity, infinity}) result.push_back(std::nextafter(middle, to));
    result.push_back(middle);
  }
  return result;
}

template <class Element>
void expect_rounding_to_nearest(void (*store)(const float*, std::size_t, Element*),
                                const std::string& target) {
  const std::vector<float> numbers = numbers_to_round<Element>();
  std::vector<Element> got(numbers.size());
  store(numbers.data(), numbers.size(), got.data());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const Element right = from_float<Element>(numbers[i]);
    ASSERT_TRUE(same(got[i], right)) << target << ": " << numbers[i] << " became "
                                     << to_float(got[i]) << ", not " << to_float(right);
  }
}

TEST(VectorStores, RoundToNearestAndTiesToEven) {
  for (const auto& [name, operations] : targets()) {
    expect_rounding_to_nearest(operations.store_f16, name);
    expect_rounding_to_nearest(operations.store_bf16, name);
  }
}

TEST(VectorStores, KeepF32AsItIs) {
  const std::vector<float> numbers = numbers_to_round<F16>();
  for (const auto& [name, operations] : targets()) {
    std::vector<float> got(numbers.size());
    operations.store_f32(numbers.data(), numbers.size(), got.data());
    EXPECT_EQ(std::memcmp(got.data(), numbers.data(), numbers.size() * sizeof(float)), 0) << name;
  }
}

// Columns whose row lies outside the range are zero, and nothing beside the panel is written.
template <class Element, class Transpose>
void expect_transposed(Transpose transpose, const std::string& target) {
  constexpr semantics::Index rows = 24, first = 3;
  for (const semantics::Index count : {1, 2, 3, 4, 5, 7, 8, 31}) {
    for (const semantics::Index width : {1, 3, 4, 6, 8, 16, 17}) {
      std::vector<Element> elements;
      for (semantics::Index i = 0; i < rows * count; ++i)
        elements.push_back(from_float<Element>(float(i + 1)));
      std::vector<const void*> pointers;
      for (semantics::Index row = 0; row < rows; ++row)
        pointers.push_back(elements.data() + row * count);
      for (const semantics::Range range :
           {semantics::Range{0, rows}, {4, 12}, {5, 6}, {7, 20}, {3, 17}, {20, 20}}) {
        std::vector<float> panel(std::size_t(count * width + 1), -1);
        transpose(pointers.data(), range, first, count, width, panel.data());
        for (semantics::Index i = 0; i < count * width; ++i) {
          const semantics::Index row = first + i % width;
          const bool inside = row >= range.begin && row < range.end;
          const float right = inside ? to_float(elements[std::size_t(row * count + i / width)]) : 0;
          ASSERT_EQ(panel[std::size_t(i)], right)
              << target << ", count " << count << ", width " << width << ", rows " << range.begin
              << " to " << range.end << ", at " << i;
        }
        ASSERT_EQ(panel.back(), -1) << target << ", count " << count << ", width " << width;
      }
    }
  }
}

TEST(VectorTranspose, PutsRowsIntoColumns) {
  for (const auto& [name, operations] : targets()) {
    expect_transposed<float>(operations.transpose_f32, name);
    expect_transposed<F16>(operations.transpose_f16, name);
  }
}

}  // namespace
}  // namespace rapt::test
#endif
