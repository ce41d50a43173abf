// Words for the kernels of matrix_kernels.hpp, and those kernels in the emulator.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "src/core/float16.hpp"
#include "src/emulator/launcher.hpp"
#include "src/verify/random.hpp"
#include "tests/emulator/matrix_kernels.hpp"

namespace rapt::test {

inline constexpr int warp_size = 32, warps = 2;

using EmulatedWarp = emulator::Target<warp_size>;

template <class Kernel>
std::vector<std::uint32_t> emulated(const std::vector<std::uint32_t>& in) {
  std::vector<std::uint32_t> out(Kernel::threads * Kernel::out_words);
  emulator::Launcher<warp_size>::launch<Kernel>({1}, {in.data(), out.data()}, {});
  return out;
}

// A matrix of small integers, whose products and sums are exact in every type.
template <int rows, int columns>
struct SmallIntegers {
  int at[rows][columns];

  explicit SmallIntegers(verify::Random& random) {
    for (auto& row : at) {
      for (int& element : row) element = static_cast<int>(random.between(-7, 7));
    }
  }
};

inline std::uint32_t word_of_f32(int x) { return std::bit_cast<std::uint32_t>(float(x)); }

// The word that holds element (row, k …) of an operand, along k: one f32 or two of 16 bits.
template <class Element, class At>
std::uint32_t word_of(int word, At at) {
  if constexpr (sizeof(Element) == 4) {
    return word_of_f32(at(word));
  } else {
    return from_float<Element>(float(at(2 * word))).bits |
           std::uint32_t{from_float<Element>(float(at(2 * word + 1))).bits} << 16;
  }
}

// c += a · b of one warp, and its words as they lie in lanes.
template <class Element>
struct SmallProduct {
  static constexpr int depth = 32 / int(sizeof(Element));
  SmallIntegers<16, depth> a;
  SmallIntegers<depth, 8> b;
  SmallIntegers<16, 8> c;

  explicit SmallProduct(verify::Random& random) : a(random), b(random), c(random) {}

  void add_words_of(int lane, std::vector<std::uint32_t>& words) const {
    const int g = lane / 4, t = lane % 4;
    for (const int row : {g, g + 8}) {
      for (const int column : {2 * t, 2 * t + 1}) words.push_back(word_of_f32(c.at[row][column]));
    }
    for (const int word : {t, t + 4}) {
      for (const int row : {g, g + 8})
        words.push_back(word_of<Element>(word, [&](int k) { return a.at[row][k]; }));
    }
    for (const int word : {t, t + 4})
      words.push_back(word_of<Element>(word, [&](int k) { return b.at[k][g]; }));
  }
  int result(int row, int column) const {
    int sum = c.at[row][column];
    for (int k = 0; k < depth; ++k) sum += a.at[row][k] * b.at[k][column];
    return sum;
  }
};

// Products of all warps, one after another.
template <class Element>
std::vector<SmallProduct<Element>> small_products(std::uint64_t seed) {
  verify::Random random(seed);
  std::vector<SmallProduct<Element>> products;
  for (int warp = 0; warp < warps; ++warp) products.emplace_back(random);
  return products;
}
template <class Element>
std::vector<std::uint32_t> words_of(const std::vector<SmallProduct<Element>>& products) {
  std::vector<std::uint32_t> words;
  for (int thread = 0; thread < warps * warp_size; ++thread)
    products[thread / warp_size].add_words_of(thread % warp_size, words);
  return words;
}

// The same with bits set that TF32 does not have.
inline std::vector<std::uint32_t> with_low_parts(std::vector<std::uint32_t> words) {
  verify::Random random(1);
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i % 10 >= 4) words[i] |= static_cast<std::uint32_t>(random.below(1 << 13));
  }
  return words;
}

// Rows of 16 bytes, and one of them for each lane, some for several.
inline std::vector<std::uint32_t> rows_to_load(std::uint64_t seed) {
  verify::Random random(seed);
  std::vector<std::uint32_t> words;
  for (int thread = 0; thread < warps * warp_size; ++thread) {
    for (int i = 0; i < 4; ++i) words.push_back(static_cast<std::uint32_t>(random.next()));
    words.push_back(static_cast<std::uint32_t>(random.between(0, warp_size - 1)));
  }
  return words;
}

inline std::vector<std::uint32_t> random_words(std::uint64_t seed, int of_thread) {
  verify::Random random(seed);
  std::vector<std::uint32_t> words;
  for (int i = 0; i < warps * warp_size * of_thread; ++i)
    words.push_back(static_cast<std::uint32_t>(random.next()));
  return words;
}

// Numbers of many sizes, f16's subnormals and what is too large for it among them.
inline std::vector<std::uint32_t> numbers(std::uint64_t seed) {
  std::vector<std::uint32_t> words = random_words(seed, 2);
  for (std::uint32_t& word : words) word = (word & 0x807fffffu) | (96 + (word >> 23) % 50) << 23;
  return words;
}

}  // namespace rapt::test
