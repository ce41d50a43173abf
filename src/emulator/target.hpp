// The Target of portable kernels (src/gpu/target.hpp) in the emulator. What would go wrong on a GPU
// is an Error here, with the line it happened in.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "src/core/float16.hpp"
#include "src/emulator/block.hpp"
#include "src/emulator/matrix_units.hpp"
#include "src/emulator/shared_view.hpp"

namespace rapt::emulator {

[[noreturn]] void fail_global(const void* address, int bytes, Here here);
[[noreturn]] void fail_partial_barrier(int threads, Here here);

// Addresses of shared memory begin here, so that no offset passes for one.
inline constexpr std::uint32_t first_shared_address = 1024;

template <int size>
struct Target {
  static_assert(size == least_wave_size || size == most_wave_size);
  static constexpr int wave_size = size;
  static constexpr bool has_mma = size == warp_lanes;

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

  // With matrix units; a barrier has all threads of the block.
  static void barrier_of_first(int threads, Here here = Here::current()) {
    if (threads != current_thread->block->threads()) fail_partial_barrier(threads, here);
    block_barrier(here);
  }
  static std::uint32_t shared_address() { return first_shared_address; }
  static std::uint32_t load_shared(std::uint32_t address, Here here = Here::current()) {
    return all_words(here).load(word_at(address, 4, here), here);
  }
  static void load_shared(std::uint32_t address, std::uint32_t (&words)[4],
                          Here here = Here::current()) {
    const Four four = all_words(here).template load_vector<4>(word_at(address, 16, here), here);
    std::memcpy(words, &four, sizeof(Four));
  }
  static void store_shared(std::uint32_t address, const std::uint32_t (&words)[4],
                           Here here = Here::current()) {
    Four four;
    std::memcpy(&four, words, sizeof(Four));
    all_words(here).store_vector(word_at(address, 16, here), four, here);
  }

  static void cp_async(std::uint32_t to, const void* from, bool wanted,
                       Here here = Here::current()) {
    const auto* four = static_cast<const Four*>(from);
    require_aligned(four, here);
    const int byte = all_words(here).template begin_copy<4>(word_at(to, 16, here), here);
    current_thread->copies.begin(byte, wanted ? load(four, here) : Four{});
  }
  static void cp_async_commit() { current_thread->copies.commit(); }
  static void cp_async_wait_previous() {
    Thread& self = *current_thread;
    self.copies.wait_previous(self.block->memory(), self.index);
  }
  static void cp_async_wait_all() {
    Thread& self = *current_thread;
    self.copies.wait_all(self.block->memory(), self.index);
  }

  static void ldmatrix(std::uint32_t address, std::uint32_t (&to)[4], Here here = Here::current()) {
    load_matrices(emulator::ldmatrix, address, to, here);
  }
  static void ldmatrix_transposed(std::uint32_t address, std::uint32_t (&to)[4],
                                  Here here = Here::current()) {
    load_matrices(emulator::ldmatrix_transposed, address, to, here);
  }
  template <class Element>
  static void mma(float& c0, float& c1, float& c2, float& c3, const std::uint32_t (&a)[4],
                  std::uint32_t b0, std::uint32_t b1, Here here = Here::current()) {
    static_assert(has_mma);
    MmaOperands operands = {{c0, c1, c2, c3}, {a[0], a[1], a[2], a[3]}, {b0, b1}};
    Thread& self = *current_thread;
    self.block->take_part(self, Stop::mma, emulator::mma<Element>, &operands, here);
    c0 = operands.c[0];
    c1 = operands.c[1];
    c2 = operands.c[2];
    c3 = operands.c[3];
  }
  template <class Element>
  static std::uint32_t pack_two(float first, float second) {
    return from_float<Element>(first).bits | std::uint32_t{from_float<Element>(second).bits} << 16;
  }
  static std::uint32_t low_part_of_tf32(std::uint32_t x) {
    return std::bit_cast<std::uint32_t>(std::bit_cast<float>(x) -
                                        std::bit_cast<float>(x & 0xffffe000u));
  }

 private:
  using Four = AsyncCopies::Data;

  static Shared<std::uint32_t> all_words(Here here) {
    return {*current_thread, 0, current_thread->block->memory().bytes() / 4, here};
  }
  static int word_at(std::uint32_t address, int bytes, Here here) {
    const int byte = static_cast<int>(address - first_shared_address);
    if (byte % bytes != 0) [[unlikely]]
      fail_alignment(byte, bytes, here);
    return byte / 4;
  }
  static void load_matrices(WaveOperation operation, std::uint32_t address, std::uint32_t (&to)[4],
                            Here here) {
    static_assert(has_mma);
    const int byte = all_words(here).template byte_of<16>(word_at(address, 16, here), here);
    LdmatrixOperands operands = {byte, {}};
    Thread& self = *current_thread;
    self.block->take_part(self, Stop::ldmatrix, operation, &operands, here);
    std::memcpy(to, operands.to, sizeof(to));
  }

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
