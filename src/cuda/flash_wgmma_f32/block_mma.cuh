// Products of f32 tiles by a warpgroup, by way of TF32, which keeps 11 of f32's 24 bits.
//
// As in flash_mma (mma_tf32.hpp), x is h + l, and three of the four products of two such sums
// are taken. Here the right operands lie in shared memory, where the tensor cores fetch them, so
// their low parts lie beside them, made once for all warps of a block; h is x itself. Queries come
// to registers, are split there and serve all keys of the tile.
//
// Tensor cores cut off what they cannot hold, so that long sums drift towards 0. Each tile's sums
// begin at 0, small products first or apart, the large ones of Q Kᵀ over some dims each, and f32
// additions do the rest.
//
// A thread's weights, as the first product left them, serve as they are: key 2 t of a step of 8
// stands where column t of its operand belongs, key 2 t + 1 at column t + 4. The values are
// transposed into the same order (tiles.cuh).
#pragma once

#include "src/cuda/flash_wgmma_f32/launch.hpp"
#include "src/cuda/flash_wgmma_f32/tiles.cuh"
#include "src/cuda/ptx/wgmma.cuh"

namespace rapt::cuda::flash_wgmma_f32 {

using flash_mma::RowsOf;

template <int n>
RAPT_DEVICE void split(const uint32_t (&x)[n], uint32_t (&low_parts)[n]) {
  RAPT_UNROLL
  for (int i = 0; i < n; ++i) low_parts[i] = ptx::low_part_of_tf32(x[i]);
}

template <TileConfig config>
struct BlockMma {
  using Scores = RowsOf<config, config.keys>;
  using Out = RowsOf<config, config.dim>;
  using Queries = Swizzled<config.rows(), config.dim>;
  using Keys = Swizzled<config.keys, config.dim>;
  using Values = Swizzled<config.dim, config.keys>;  // transposed
  using QueryPieces = PiecesOfRows<Queries, config.warps() * 32>;
  using KeyPieces = PiecesOfRows<Keys, producer_threads>;
  using ValuePieces = PiecesOfFours<config.keys, config.dim, producer_threads>;
  // Byte offsets of the tiles.
  static constexpr int queries_at = 0, keys_at = Queries::bytes;
  static constexpr int key_low_parts_at = keys_at + Keys::bytes;
  static constexpr int values_at = key_low_parts_at + Keys::bytes;
  static constexpr int value_low_parts_at = values_at + Values::bytes;
  static constexpr int loaded_values_at = value_low_parts_at + Values::bytes;
  static constexpr int bytes = loaded_values_at + ValuePieces::bytes;

  // The thread makes the low parts of the keys that it has loaded.
  RAPT_DEVICE static void split_keys(uint32_t memory) {
    constexpr int at_once = 4;
    static_assert(KeyPieces::count % at_once == 0);
    RAPT_UNROLL
    for (int first = 0; first < KeyPieces::count; first += at_once) {
      uint32_t some[at_once][4], low_parts[4];
      RAPT_UNROLL
      for (int i = 0; i < at_once; ++i)
        ptx::load_shared(memory + keys_at + KeyPieces::place(first + i), some[i]);
      RAPT_UNROLL
      for (int i = 0; i < at_once; ++i) {
        split(some[i], low_parts);
        ptx::store_shared(memory + key_low_parts_at + KeyPieces::place(first + i), low_parts);
      }
    }
  }
  // And transposes its values, with their low parts.
  RAPT_DEVICE static void transpose_values(uint32_t memory) {
    RAPT_UNROLL
    for (int first = 0; first < ValuePieces::count; first += 4) transpose_values(memory, first);
  }

  // scores = queries · keysᵀ; begun() when some of the products are under way.
  template <class Begun>
  RAPT_DEVICE static void score(uint32_t memory, Scores& scores, Begun begun) {
    using Mma = ptx::Wgmma<float, config.keys>;
    constexpr int sums = config.dim / config.sum_depth;
    // Steps of a batch of products, and batches under way: what registers there are for.
    constexpr int steps = 2, batches = sums > 1 ? 2 : 3;
    float large[sums][config.keys / 8][4], small[config.keys / 8][4];
    const auto keys = ptx::MatrixDescriptor::k_major(block_memory + keys_at);
    const auto key_low_parts = ptx::MatrixDescriptor::k_major(block_memory + key_low_parts_at);
    const int lane = Target::lane();
    const uint32_t own_rows =
        memory + queries_at + Queries::at(Target::wave() * 16 + lane % 16, lane / 16 * 4);
    uint32_t left[batches][steps][4], left_low[batches][steps][4];
    RAPT_UNROLL
    for (int batch = 0; batch < config.dim / 8 / steps; ++batch) {
      if (batch >= batches) ptx::wgmma_wait<batches - 1>();  // what used these registers
      auto& some = left[batch % batches];
      auto& low_parts = left_low[batch % batches];
      RAPT_UNROLL
      for (int i = 0; i < steps; ++i) {
        const int column = (batch * steps + i) * 8;
        ptx::ldmatrix(
            (own_rows ^ column % panel_columns * 4) + column / panel_columns * Queries::panel_bytes,
            some[i]);
        split(some[i], low_parts[i]);
      }
      ptx::wgmma_fence();
      RAPT_UNROLL
      for (int i = 0; i < steps; ++i) {
        const int column = (batch * steps + i) * 8;
        const int at = column / panel_columns * Keys::panel_bytes + column % panel_columns * 4;
        Mma::mma(small, some[i], key_low_parts.offset_by(at), column > 0);
        Mma::mma(small, low_parts[i], keys.offset_by(at), true);
        Mma::mma(large[column / config.sum_depth], some[i], keys.offset_by(at),
                 column % config.sum_depth > 0);
      }
      ptx::wgmma_commit();
      if (batch == 0) begun();
    }
    ptx::wgmma_wait<0>();
    ptx::fence_operand(small);
    RAPT_UNROLL
    for (int sum = 0; sum < sums; ++sum) ptx::fence_operand(large[sum]);
    RAPT_UNROLL
    for (int j = 0; j < Scores::columns; ++j) {
      RAPT_UNROLL
      for (int row = 0; row < 2; ++row) {
        float& score = scores.at[row][j];
        score = small[j / 2][2 * row + j % 2];
        RAPT_UNROLL
        for (int sum = 0; sum < sums; ++sum) score += large[sum][j / 2][2 * row + j % 2];
      }
    }
  }

  // out = out · rescale + weights · values; begin() before the first product, begun() when most are
  // under way. Wide heads are multiplied in parts, to have registers enough.
  template <class Begin, class Begun>
  RAPT_DEVICE static void accumulate(const Scores& weights, const float (&rescale)[2], Out& out,
                                     Begin begin, Begun begun) {
    constexpr int width = config.dim <= 128 ? config.dim : 64, parts = config.dim / width;
    using Mma = ptx::Wgmma<float, width>;
    constexpr int steps = config.keys / 8;
    float sums[parts > 1 ? 2 : 1][width / 8][4];
    uint32_t left[steps][4], left_low[steps][4];
    RAPT_UNROLL
    for (int step = 0; step < steps; ++step) {
      RAPT_UNROLL
      for (int i = 0; i < 4; ++i)
        left[step][i] = __float_as_uint(weights.at[i % 2][2 * step + i / 2]);
      split(left[step], left_low[step]);
    }
    const auto values = ptx::MatrixDescriptor::k_major(block_memory + values_at);
    const auto value_low_parts = ptx::MatrixDescriptor::k_major(block_memory + value_low_parts_at);
    const auto add = [&](int part) {
      RAPT_UNROLL
      for (int j = 0; j < width / 4; ++j) {
        RAPT_UNROLL
        for (int row = 0; row < 2; ++row) {
          float& sum = out.at[row][part * width / 4 + j];
          sum = sum * rescale[row] + sums[part % 2][j / 2][2 * row + j % 2];
        }
      }
    };
    begin();
    RAPT_UNROLL
    for (int part = 0; part < parts; ++part) {
      const auto at = [&](int step) {
        return step * 8 / panel_columns * Values::panel_bytes + step * 32 % panel_row_bytes +
               part * width * panel_row_bytes;
      };
      ptx::wgmma_fence();
      RAPT_UNROLL
      for (int step = 0; step < steps; ++step) {
        Mma::mma(sums[part % 2], left[step], value_low_parts.offset_by(at(step)), step > 0);
        Mma::mma(sums[part % 2], left_low[step], values.offset_by(at(step)), true);
      }
      if (part == parts - 1) begun();
      RAPT_UNROLL
      for (int step = 0; step < steps; ++step)
        Mma::mma(sums[part % 2], left[step], values.offset_by(at(step)), true);
      ptx::wgmma_commit();
      if (part == 0) continue;
      ptx::wgmma_wait<1>();
      ptx::fence_operand(sums[(part - 1) % 2]);
      add(part - 1);
    }
    ptx::wgmma_wait<0>();
    ptx::fence_operand(sums[(parts - 1) % 2]);
    add(parts - 1);
  }

 private:
  // Four by four, from the thread's piece `first` on.
  RAPT_DEVICE static void transpose_values(uint32_t memory, int first) {
    uint32_t keys[4][4];
    RAPT_UNROLL
    for (int i = 0; i < 4; ++i)
      ptx::load_shared(memory + loaded_values_at + ValuePieces::place(first + i), keys[i]);
    const uint32_t to = Values::at(ValuePieces::column(),
                                   ValuePieces::panel() * panel_columns + ValuePieces::four() * 4);
    RAPT_UNROLL
    for (int j = 0; j < 4; ++j) {
      const uint32_t at = Values::below(to, ValuePieces::column_step(first) + j);
      const uint32_t some[4] = {keys[0][j], keys[1][j], keys[2][j], keys[3][j]};
      uint32_t low_parts[4];
      split(some, low_parts);
      ptx::store_shared(memory + values_at + at, some);
      ptx::store_shared(memory + value_low_parts_at + at, low_parts);
    }
  }
};

}  // namespace rapt::cuda::flash_wgmma_f32
