// The Target of portable kernels (src/gpu/target.hpp) in the emulator. What would go wrong on a GPU
// is an Error here, with the line it happened in.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "src/core/float16.hpp"
#include "src/emulator/block.hpp"
#include "src/emulator/shared_view.hpp"

namespace rapt::emulator {

[[noreturn]] void fail_global(const void* address, int bytes, Here here);

template <int size>
struct Target {
  static_assert(size == least_wave_size || size == most_wave_size);
  static constexpr int wave_size = size;

  static int thread() { return current_thread->index; }
  static int block_x() { return current_thread->block->place().x; }
  static int block_y() { return current_thread->block->place().y; }
  static int block_z() { return current_thread->block->place().z; }
  static int lane() { return current_thread->lane; }
  static int wave() { return current_thread->wave; }

  static void block_barrier(Here here = Here::current()) { wait(Stop::block_barrier, here); }
  static void wave_barrier(Here here = Here::current()) { wait(Stop::wave_barrier, here); }
  template <class T>
  static T shuffle_xor(T value, int mask, Here here = Here::current()) {
    return exchange(Stop::shuffle_xor, value, mask, here);
  }
  template <class T>
  static T shuffle(T value, int lane, Here here = Here::current()) {
    return exchange(Stop::shuffle, value, lane, here);
  }

  template <class T>
  static Shared<T> shared(int byte, int count, Here here = Here::current()) {
    return {*current_thread, byte, count, here};
  }

  template <class T>
  static T load(const T* from, Here here = Here::current()) {
    require_aligned(from, here);
    T value;
    std::memcpy(&value, from, sizeof(T));
    return value;
  }
  template <class T>
  static void store(T* to, T value, Here here = Here::current()) {
    require_aligned(to, here);
    std::memcpy(to, &value, sizeof(T));
  }
  template <class T>
  static T load_once(const T* from, Here here = Here::current()) {
    return load(from, here);
  }
  template <class T>
  static T load_fresh(const T* from, Here here = Here::current()) {
    return load(from, here);
  }
  template <class T>
  static void store_once(T* to, T value, Here here = Here::current()) {
    store(to, value, here);
  }

  static float exp2(float x) { return std::exp2(x); }
  static int unknown(int x) { return x; }
  static void wait_for_previous() {}
  static float log2(float x) { return std::log2(x); }
  static float product(float x, float y) {
    const volatile float rounded = x * y;
    return rounded;
  }

  template <class Element>
  static float to_float(Element x) {
    return rapt::to_float(x);
  }
  template <class Element>
  static Element from_float(float x) {
    return rapt::from_float<Element>(x);
  }

 private:
  static void wait(Stop stop, Here here) {
    Thread& self = *current_thread;
    self.block->wait(self, stop, here);
  }
  template <class T>
  static T exchange(Stop stop, T value, int from, Here here) {
    static_assert(std::is_trivially_copyable_v<T> && (sizeof(T) == 4 || sizeof(T) == 8),
                  "what CUDA and HIP shuffle");
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(T));
    Thread& self = *current_thread;
    bits = self.block->shuffle(self, stop, bits, from, here);
    std::memcpy(&value, &bits, sizeof(T));
    return value;
  }
  template <class T>
  static void require_aligned(const T* address, Here here) {
    static_assert(sizeof(T) <= 16 && (sizeof(T) & (sizeof(T) - 1)) == 0, "one access of a GPU");
    if (reinterpret_cast<std::uintptr_t>(address) % sizeof(T) != 0) [[unlikely]]
      fail_global(address, sizeof(T), here);
  }
};

}  // namespace rapt::emulator
