// merge: two results of the same rows over disjoint keys become one, weighted by their lse.
//
// Memory is the limit, so everything is read once, 16 bytes a lane: neighbouring lanes hold one row
// (query and head), eight elements each, and step along it if it is longer. The three element types
// are looked at while running, by all lanes alike, so that one kernel serves all 27 combinations.
#pragma once

#include "src/gpu/divisor.hpp"
#include "src/gpu/launch.hpp"
#include "src/gpu/rows.hpp"
#include "src/gpu/softmax.hpp"
#include "src/semantics/call.hpp"

namespace rapt::gpu {

struct MergePartial {
  void* out;
  DType dtype;  // of out
  bool whole;   // rows of out are read and written 16 bytes at a time
  float* lse;
  Index out_stride[3], lse_stride[3];  // both (batch, seq, head)
};

struct MergeParameters {
  MergePartial first, second, result;  // result may lie where first or second does
  int rows;                            // batch · seq · heads
  Divisor heads, seq;
  Index dim;
  int lane_bits;  // 2^lane_bits lanes of a wave hold a row
};

struct MergeShape {
  static constexpr int threads = 256;
  static constexpr int each = 8;            // elements of a lane at a time
  static constexpr int most_lane_bits = 5;  // waves have 32 lanes or more
};

template <class Target>
struct Merge : MergeShape {
  using Parameters = MergeParameters;
  static constexpr int blocks = 4, shared_bytes = 0;

  // Where result lies over an input, memory is written that others of the launch read: no load may
  // go by way of a cache that takes it for constant, as Target::load may.
  struct Once : Target {
    template <class T>
    RAPT_DEVICE static T load(const T* from) {
      return Target::load_once(from);
    }
  };

  // Eight elements as they lie in memory; those of 16 bits fill the first half.
  using Raw = RawRow<float, each>;

  struct Row {
    semantics::Place place;
    Index head;
    RAPT_DEVICE Index in(const Index (&stride)[3]) const {
      return semantics::row_offset(stride, place, head);
    }
  };

  RAPT_DEVICE static void run(const Parameters& p) {
    const int lane = Target::thread() & ((1 << p.lane_bits) - 1);  // of the row
    const Index wanted =
        Index{Target::block_x()} * (threads >> p.lane_bits) + (Target::thread() >> p.lane_bits);
    const bool exists = wanted < p.rows;  // lanes without a row still take part in shuffles
    const int index = exists ? static_cast<int>(wanted) : 0;
    const int token = p.heads.quotient(index);
    const Row row = {{p.seq.quotient(token), p.seq.remainder(token)},
                     index - token * p.heads.value};

    // The lane that writes lse is the only one that reads it: in place nobody comes too late.
    float first_lse = minus_infinity, second_lse = minus_infinity;
    if (exists && lane == 0) {
      first_lse = Target::load_once(p.first.lse + row.in(p.first.lse_stride));
      second_lse = Target::load_once(p.second.lse + row.in(p.second.lse_stride));
    }
    first_lse = Target::shuffle(first_lse, Target::lane() - lane);
    second_lse = Target::shuffle(second_lse, Target::lane() - lane);
    if (!exists) return;

    // A NaN of either side makes the sum one, and so does +∞ the sum +∞. Else the larger side's
    // weight is 1.
    const float largest = first_lse > second_lse ? first_lse : second_lse;
    const float first_weight = weight(first_lse, finite_max(largest));
    const float second_weight = weight(second_lse, finite_max(largest));
    const float sum = first_weight + second_weight;
    const float factor = sum == 0 ? 0.0f : 1.0f / sum;
    const float first_share = first_weight * factor, second_share = second_weight * factor;
    for (Index at = Index{lane} * each; at < p.dim; at += Index{each} << p.lane_bits) {
      // Loads first, so that both are in flight before the first is waited for. An empty side is
      // not looked at.
      Raw first_raw = {}, second_raw = {};
      if (first_lse != minus_infinity) first_raw = load(p.first, row, at, p.dim);
      if (second_lse != minus_infinity) second_raw = load(p.second, row, at, p.dim);
      float first[each], second[each];
      to_floats(first_raw, p.first.dtype, first);
      to_floats(second_raw, p.second.dtype, second);
      RAPT_UNROLL
      for (int i = 0; i < each; ++i) first[i] = first_share * first[i] + second_share * second[i];
      store(p.result, row, at, p.dim, first);
    }
    if (lane == 0) {
      const float lse = sum == 0 ? minus_infinity : largest + Target::log2(sum) * natural_log_of_2;
      Target::store_once(p.result.lse + row.in(p.result.lse_stride), lse);
    }
  }

 private:
  RAPT_DEVICE static float weight(float lse, float largest) {
    return lse == minus_infinity ? 0.0f : Target::exp2((lse - largest) * log2_e);
  }

  RAPT_DEVICE static Raw load(const MergePartial& from, const Row& row, Index at, Index dim) {
    const Index offset = row.in(from.out_stride);
    if (from.dtype == DType::f32)
      return load_raw_row<Once, each>(static_cast<const float*>(from.out) + offset, at, dim,
                                      from.whole);
    const RawRow<F16, each> b16 = load_raw_row<Once, each>(
        static_cast<const F16*>(from.out) + offset, at, dim, from.whole);  // bf16 alike
    return {{b16.access[0]}};
  }

  RAPT_DEVICE static void to_floats(const Raw& raw, DType dtype, float (&to)[each]) {
    with_type(dtype, [&]<class Element>() {
      RawRow<Element, each> row;
      RAPT_UNROLL
      for (int i = 0; i < each / elements_per_access<Element>; ++i) row.access[i] = raw.access[i];
      RAPT_UNROLL
      for (int i = 0; i < each; ++i) to[i] = Target::to_float(row.at(i));
    });
  }

  RAPT_DEVICE static void store(const MergePartial& to, const Row& row, Index at, Index dim,
                                const float (&from)[each]) {
    with_type(to.dtype, [&]<class Element>() {
      store_row<Target>(static_cast<Element*>(to.out) + row.in(to.out_stride), at, dim, to.whole,
                        from);
    });
  }

  // with_element(), on the device.
  template <class Function>
  RAPT_DEVICE static void with_type(DType dtype, Function&& function) {
    switch (dtype) {
      case DType::f16: return function.template operator()<F16>();
      case DType::bf16: return function.template operator()<BF16>();
      default: return function.template operator()<float>();
    }
  }
};

template <class Launcher>
void launch_merge(const MergeParameters& parameters, Where where) {
  using Kernel = Merge<typename Launcher::Target>;
  const Index rows_of_block = Kernel::threads >> parameters.lane_bits;
  Launcher::template launch<Kernel>({semantics::divided_up(parameters.rows, rows_of_block)},
                                    parameters, where);
}

}  // namespace rapt::gpu
