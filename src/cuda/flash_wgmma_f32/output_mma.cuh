// O = O · rescale + P V of f32 tiles by a warpgroup, in three products of TF32: see score_mma.cuh.
//
// A thread's weights, as the first product left them, serve as they are: key 2 t of a step of 8
// stands where column t of its operand belongs, key 2 t + 1 at column t + 4. The values are
// transposed into the same order (pieces.cuh).
#pragma once

#include "src/cuda/flash_wgmma_f32/storage.cuh"
#include "src/cuda/ptx/wgmma.cuh"

namespace rapt::cuda::flash_wgmma_f32 {

template <TileConfig config>
class OutputMma {
  using Storage = flash_wgmma_f32::Storage<config>;
  using Values = Storage::Values;
  using Scores = Rows<config>::Scores;
  using Out = Rows<config>::Out;

  // Wide heads are multiplied in parts, to have registers enough.
  static constexpr int width = config.dim <= 128 ? config.dim : 64, parts = config.dim / width;
  static constexpr int steps = config.keys / 8;
  using Mma = ptx::Wgmma<float, width>;
  using Sums = float[width / 8][4];

  // Weights, (16, 8) of each warp in each step, and their low parts.
  struct LeftOperand {
    uint32_t all[steps][4], low[steps][4];
  };

 public:
  // out = out · rescale + weights · values; begin() before the first product, begun() when most are
  // under way.
  template <class Begin, class Begun>
  RAPT_DEVICE static void accumulate(const Scores& weights, const float (&rescale)[2], Out& out,
                                     Begin begin, Begun begun) {
    Sums sums[parts > 1 ? 2 : 1];
    LeftOperand left;
    split_weights(weights, left);
    const auto values = ptx::MatrixDescriptor::k_major(block_memory + Storage::values_at);
    const auto value_low_parts =
        ptx::MatrixDescriptor::k_major(block_memory + Storage::value_low_parts_at);
    begin();
    RAPT_UNROLL
    for (int part = 0; part < parts; ++part) {
      issue_small(left, part, values, value_low_parts, sums[part % 2]);
      if (part == parts - 1) begun();
      issue_large(left, part, values, sums[part % 2]);
      if (part == 0) continue;
      ptx::wgmma_wait<1>();
      add(part - 1, rescale, sums[(part - 1) % 2], out);
    }
    ptx::wgmma_wait<0>();
    add(parts - 1, rescale, sums[(parts - 1) % 2], out);
  }

 private:
  RAPT_DEVICE static void split_weights(const Scores& weights, LeftOperand& left) {
    RAPT_UNROLL
    for (int step = 0; step < steps; ++step) {
      RAPT_UNROLL
      for (int i = 0; i < 4; ++i)
        left.all[step][i] = __float_as_uint(weights.at[i % 2][2 * step + i / 2]);
      split(left.all[step], left.low[step]);
    }
  }

  // Where the values of a step lie, for a part of their dims.
  RAPT_DEVICE static constexpr int offset(int step, int part) {
    return Values::column_offset(step * 8) + part * width * hopper::panel_row_bytes;
  }
  RAPT_DEVICE static void issue_small(const LeftOperand& left, int part,
                                      ptx::MatrixDescriptor values,
                                      ptx::MatrixDescriptor value_low_parts, Sums& sums) {
    ptx::wgmma_fence();
    RAPT_UNROLL
    for (int step = 0; step < steps; ++step) {
      Mma::mma(sums, left.all[step], value_low_parts.offset_by(offset(step, part)), step > 0);
      Mma::mma(sums, left.low[step], values.offset_by(offset(step, part)), true);
    }
  }
  RAPT_DEVICE static void issue_large(const LeftOperand& left, int part,
                                      ptx::MatrixDescriptor values, Sums& sums) {
    RAPT_UNROLL
    for (int step = 0; step < steps; ++step)
      Mma::mma(sums, left.all[step], values.offset_by(offset(step, part)), true);
    ptx::wgmma_commit();
  }

  RAPT_DEVICE static void add(int part, const float (&rescale)[2], Sums& sums, Out& out) {
    ptx::fence_operand(sums);
    RAPT_UNROLL
    for (int j = 0; j < width / 4; ++j) {
      RAPT_UNROLL
      for (int row = 0; row < 2; ++row) {
        float& sum = out.at[row][part * width / 4 + j];
        sum = sum * rescale[row] + sums[j / 2][2 * row + j % 2];
      }
    }
  }
};

}  // namespace rapt::cuda::flash_wgmma_f32
