// What a GPU reaches at best: reading memory, copying it, and multiply-adds in registers. Every
// thread has several accesses, or chains of arithmetic, under way at once.
#pragma once

#include "src/gpu/launch.hpp"

namespace rapt::gpu {

using Vector16 = Vector<float, 4>;  // 16 bytes

struct LimitsParameters {
  enum class What { read, copy, multiply_add } what;
  Index vectors;  // to read or copy: a multiple of vectors_of_block
  const Vector16* from;
  Vector16* to;  // a read writes nothing
  Index blocks;  // to multiply and add in
  int rounds;
  float factor, addend;
};

struct StreamShape {
  static constexpr int threads = 256, each = 4;  // 16-byte accesses of a thread
  static constexpr int vectors_of_block = threads * each;
};

template <class Target>
struct ReadLimit : StreamShape {
  using Parameters = LimitsParameters;
  static constexpr int blocks = 8, shared_bytes = 0;

  RAPT_DEVICE static void run(const Parameters& p) {
    const Vector16* from = p.from + Index{Target::block_x()} * vectors_of_block + Target::thread();
    Vector16 read[each];
    RAPT_UNROLL
    for (int i = 0; i < each; ++i) read[i] = Target::load_once(from + i * threads);
    float sum = 0;
    RAPT_UNROLL
    for (int i = 0; i < each; ++i) {
      RAPT_UNROLL
      for (int j = 0; j < 4; ++j) sum += read[i].at[j];
    }
    if (sum == p.factor) p.to->at[0] = sum;  // a NaN: never
  }
};

template <class Target>
struct CopyLimit : StreamShape {
  using Parameters = LimitsParameters;
  static constexpr int blocks = 8, shared_bytes = 0;

  RAPT_DEVICE static void run(const Parameters& p) {
    const Index first = Index{Target::block_x()} * vectors_of_block + Target::thread();
    Vector16 read[each];
    RAPT_UNROLL
    for (int i = 0; i < each; ++i) read[i] = Target::load_once(p.from + first + i * threads);
    RAPT_UNROLL
    for (int i = 0; i < each; ++i) Target::store_once(p.to + first + i * threads, read[i]);
  }
};

struct MultiplyAddShape {
  static constexpr int threads = 256, chains = 8, steps = 32;
  static constexpr double flops_of_round = 2.0 * threads * chains * steps;  // of a block
};

template <class Target>
struct MultiplyAddLimit : MultiplyAddShape {
  using Parameters = LimitsParameters;
  static constexpr int blocks = 4, shared_bytes = 0;

  RAPT_DEVICE static void run(const Parameters& p) {
    float sums[chains];
    RAPT_UNROLL
    for (int i = 0; i < chains; ++i) sums[i] = static_cast<float>(Target::thread() + i);
    for (int round = 0; round < p.rounds; ++round) {
      RAPT_UNROLL
      for (int step = 0; step < steps; ++step) {
        RAPT_UNROLL
        for (int i = 0; i < chains; ++i) sums[i] = sums[i] * p.factor + p.addend;
      }
    }
    float total = 0;
    RAPT_UNROLL
    for (int i = 0; i < chains; ++i) total += sums[i];
    if (total < 0) p.to->at[0] = total;  // all are positive: never
  }
};

template <class Launcher>
void launch_limits(const LimitsParameters& p, Where where) {
  using Target = typename Launcher::Target;
  const Grid stream = {p.vectors / StreamShape::vectors_of_block};
  switch (p.what) {
    case LimitsParameters::What::read:
      return Launcher::template launch<ReadLimit<Target>>(stream, p, where);
    case LimitsParameters::What::copy:
      return Launcher::template launch<CopyLimit<Target>>(stream, p, where);
    case LimitsParameters::What::multiply_add:
      return Launcher::template launch<MultiplyAddLimit<Target>>({p.blocks}, p, where);
  }
}

}  // namespace rapt::gpu
