// S = Q Kᵀ of f32 tiles by a warpgroup, by way of TF32, which keeps 11 of f32's 24 bits.
//
// As in flash_mma (mma_tf32.hpp), x is h + l, and three of the four products of two such sums are
// taken. The tensor cores fetch the right operands from shared memory, where their low parts lie
// beside them; h is x itself. Queries come to registers, are split there and serve all keys of the
// tile.
//
// Tensor cores cut off what they cannot hold, so that long sums drift towards 0. Each tile's sums
// begin at 0, small products apart, the large ones over some dims each, and f32 additions do the
// rest.
#pragma once

#include "src/cuda/flash_wgmma_f32/storage.cuh"
#include "src/cuda/ptx/wgmma.cuh"

namespace rapt::cuda::flash_wgmma_f32 {

template <TileConfig config>
class ScoreMma {
  using Storage = flash_wgmma_f32::Storage<config>;
  using Queries = Storage::Queries;
  using Keys = Storage::Keys;
  using Scores = Rows<config>::Scores;
  using Mma = ptx::Wgmma<float, config.keys>;

  // Large products are summed over `sum_depth` dims each, small ones over all.
  static constexpr int large_sums = config.dim / config.sum_depth;
  // Steps of 8 dims in a batch of products, and batches under way: what registers there are for.
  static constexpr int steps = 2, batches = large_sums > 1 ? 2 : 3;

  // Not one struct: the compiler would then keep what it knows of descriptors in registers.
  using Small = float[config.keys / 8][4];
  using Large = float[large_sums][config.keys / 8][4];
  // Queries of a batch, (16, 8) of each warp in each step, and their low parts.
  struct LeftOperand {
    uint32_t all[steps][4], low[steps][4];
  };

 public:
  // scores = queries · keysᵀ; begun() when some of the products are under way.
  template <class Begun>
  RAPT_DEVICE static void score(uint32_t memory, Scores& scores, Begun begun) {
    Large large;
    Small small;
    LeftOperand left[batches];
    const auto keys = ptx::MatrixDescriptor::k_major(block_memory + Storage::keys_at);
    const auto key_low_parts =
        ptx::MatrixDescriptor::k_major(block_memory + Storage::key_low_parts_at);
    const int lane = Target::lane();
    const uint32_t own_rows =
        memory + Storage::queries_at + Queries::at(Target::wave() * 16 + lane % 16, lane / 16 * 4);
    RAPT_UNROLL
    for (int batch = 0; batch < config.dim / 8 / steps; ++batch) {
      if (batch >= batches) ptx::wgmma_wait<batches - 1>();  // what used these registers
      load_left(own_rows, batch, left[batch % batches]);
      issue(left[batch % batches], batch, keys, key_low_parts, small, large);
      if (batch == 0) begun();
    }
    ptx::wgmma_wait<0>();
    join(small, large, scores);
  }

 private:
  RAPT_DEVICE static void load_left(uint32_t own_rows, int batch, LeftOperand& left) {
    RAPT_UNROLL
    for (int i = 0; i < steps; ++i) {
      const int column = (batch * steps + i) * 8;
      ptx::ldmatrix((own_rows ^ column % Queries::panel_columns * 4) +
                        column / Queries::panel_columns * Queries::panel_bytes,
                    left.all[i]);
      split(left.all[i], left.low[i]);
    }
  }

  RAPT_DEVICE static void issue(const LeftOperand& left, int batch, ptx::MatrixDescriptor keys,
                                ptx::MatrixDescriptor key_low_parts, Small& small, Large& large) {
    ptx::wgmma_fence();
    RAPT_UNROLL
    for (int i = 0; i < steps; ++i) {
      const int column = (batch * steps + i) * 8, at = Keys::column_offset(column);
      Mma::mma(small, left.all[i], key_low_parts.offset_by(at), column > 0);
      Mma::mma(small, left.low[i], keys.offset_by(at), true);
      Mma::mma(large[column / config.sum_depth], left.all[i], keys.offset_by(at),
               column % config.sum_depth > 0);
    }
    ptx::wgmma_commit();
  }

  RAPT_DEVICE static void join(Small& small, Large& large, Scores& scores) {
    ptx::fence_operand(small);
    RAPT_UNROLL
    for (int sum = 0; sum < large_sums; ++sum) ptx::fence_operand(large[sum]);
    RAPT_UNROLL
    for (int j = 0; j < Scores::columns; ++j) {
      RAPT_UNROLL
      for (int row = 0; row < 2; ++row) {
        float& score = scores.at[row][j];
        score = small[j / 2][2 * row + j % 2];
        RAPT_UNROLL
        for (int sum = 0; sum < large_sums; ++sum) score += large[sum][j / 2][2 * row + j % 2];
      }
    }
  }
};

}  // namespace rapt::cuda::flash_wgmma_f32
