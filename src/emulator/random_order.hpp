// Random orders of threads, cheap enough to be drawn after every shuffle.
#pragma once

#include <cstdint>

namespace rapt::emulator {

class RandomOrder {
 public:
  explicit RandomOrder(std::uint64_t seed = 0) : state_(seed) {}

  // An own one for each block of a grid.
  static RandomOrder of_block(std::uint64_t seed, std::int64_t block) {
    RandomOrder order(seed);
    return RandomOrder(order.next() + static_cast<std::uint64_t>(block));
  }

  // The numbers below a power of two in some order: at(0), at(1), …
  class Permutation {
   public:
    Permutation() = default;
    Permutation(unsigned mask, unsigned odd, unsigned first)
        : mask_(mask), odd_(odd), first_(first) {}
    int at(int i) const {
      return static_cast<int>((odd_ * static_cast<unsigned>(i) + first_) & mask_);
    }

   private:
    unsigned mask_ = 0, odd_ = 1, first_ = 0;
  };

  // Forwards and backwards are among them.
  Permutation draw(int power_of_two) {
    const std::uint64_t bits = next();
    return {static_cast<unsigned>(power_of_two) - 1, static_cast<unsigned>(bits) | 1,
            static_cast<unsigned>(bits >> 32)};
  }

 private:
  std::uint64_t next() {  // splitmix64
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }

  std::uint64_t state_;
};

}  // namespace rapt::emulator
