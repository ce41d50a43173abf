// The Target of portable kernels on the model.
#pragma once

#include "src/core/float16.hpp"
#include "src/cuda/ptx/barrier.cuh"
#include "src/cuda/ptx/cp_async.cuh"
#include "src/cuda/ptx/ldmatrix.cuh"
#include "src/cuda/ptx/mma.cuh"
#include "src/cuda/ptx/pack.cuh"
#include "src/cuda/ptx/shared.cuh"
#include "src/gpu/target.hpp"

namespace rapt::cuda {

extern thread_local unsigned char* block_memory;  // of the running thread's block

template <class T>
class Shared {
 public:
  explicit Shared(T* memory) : memory_(memory) {}
  T load(int at) const { return memory_[at]; }
  void store(int at, T value) const { memory_[at] = value; }
  template <int n>
  gpu::Vector<T, n> load_vector(int at) const {
    return *reinterpret_cast<const gpu::Vector<T, n>*>(memory_ + at);
  }
  template <int n>
  void store_vector(int at, gpu::Vector<T, n> value) const {
    *reinterpret_cast<gpu::Vector<T, n>*>(memory_ + at) = value;
  }

 private:
  T* memory_;
};

struct Target {
  static constexpr int wave_size = 32;
  static constexpr bool has_mma = true;
  static constexpr unsigned all_lanes = 0xffffffff;

  static int thread() { return static_cast<int>(threadIdx.x); }
  static int block_x() { return static_cast<int>(blockIdx.x); }
  static int block_y() { return 0; }
  static int block_z() { return 0; }
  static int lane() { return thread() % wave_size; }
  static int wave() { return thread() / wave_size; }

  static void block_barrier() { __syncthreads(); }
  static void wave_barrier() { __syncwarp(); }
  template <class T>
  static T shuffle_xor(T value, int mask) {
    return model::shuffle(value, lane() ^ mask);
  }
  template <class T>
  static T shuffle(T value, int lane) {
    return model::shuffle(value, lane);
  }

  template <class T>
  static Shared<T> shared(int byte, int) {
    return Shared<T>(reinterpret_cast<T*>(block_memory + byte));
  }

  template <class T>
  static T load(const T* from) {
    return *from;
  }
  template <class T>
  static T load_once(const T* from) {
    return *from;
  }
  template <class T>
  static T load_fresh(const T* from) {
    return *from;
  }
  template <class T>
  static void store(T* to, T value) {
    *to = value;
  }
  template <class T>
  static void store_once(T* to, T value) {
    *to = value;
  }

  static float exp2(float x) { return std::exp2(x); }
  static float log2(float x) { return std::log2(x); }
  static float product(float x, float y) {
    const volatile float rounded = x * y;
    return rounded;
  }
  static float reciprocal(float x) { return 1 / x; }

  static void wait_for_previous() {}
  static int unknown(int x) { return x; }
  template <class Element>
  static float to_float(Element x) {
    return rapt::to_float(x);
  }
  template <class Element>
  static Element from_float(float x) {
    return rapt::from_float<Element>(x);
  }

  static void barrier_of_first(int threads) { ptx::named_barrier_sync(0, threads); }
  static uint32_t shared_address() { return ptx::shared_address(block_memory); }
  static uint32_t load_shared(uint32_t address) { return ptx::load_shared(address); }
  static void load_shared(uint32_t address, uint32_t (&words)[4]) {
    ptx::load_shared(address, words);
  }
  static void store_shared(uint32_t address, const uint32_t (&words)[4]) {
    ptx::store_shared(address, words);
  }
  static void cp_async(uint32_t to, const void* from, bool wanted) {
    ptx::cp_async(to, from, wanted);
  }
  static void cp_async_commit() { ptx::cp_async_commit(); }
  static void cp_async_wait_previous() { ptx::cp_async_wait_previous(); }
  static void cp_async_wait_all() { ptx::cp_async_wait_all(); }
  static void ldmatrix(uint32_t address, uint32_t (&to)[4]) { ptx::ldmatrix(address, to); }
  template <class Element>
  static uint32_t pack_two(float first, float second) {
    return ptx::pack_two<Element>(first, second);
  }
};

}  // namespace rapt::cuda
