// Products of f16 or bf16 tiles on tensor cores. A lane's weights, as the first product left them,
// are what the second takes, rounded to 16 bits.
#pragma once

#include "src/gpu/flash_mma/fragments.hpp"

namespace rapt::gpu::flash_mma {

template <class Target, TileConfig config, class Element>
struct MmaB16 {
  static constexpr int row_tiles = config.row_tiles, key_tiles = config.warp_keys() / 8;
  using Tile = TileLayout<Element, config.dim>;
  using Scores = RowsOf<config, config.warp_keys()>;
  using Out = RowsOf<config, config.dim>;
  static constexpr bool prepares = false;
  static constexpr int query_tiles = 1;

  // scores = queries · keysᵀ
  RAPT_DEVICE static void score(uint32_t queries, uint32_t keys, Scores& scores) {
    scores = {};
    RAPT_UNROLL
    for (int step = 0; step < config.dim / 16; ++step) {
      uint32_t a[row_tiles][4];
      RAPT_UNROLL
      for (int m = 0; m < row_tiles; ++m)
        Target::ldmatrix(queries + left_operand<Target, Tile>(m * 16, step), a[m]);
      RAPT_UNROLL
      for (int pair = 0; pair < key_tiles / 2; ++pair) {
        uint32_t b[4];
        Target::ldmatrix(keys + right_operand<Target, Tile>(pair * 16, step), b);
        multiply_pair(scores, pair, a, b);
      }
    }
  }

  // out = out · rescale + weights · values
  RAPT_DEVICE static void accumulate(Scores& scores, const float (&rescale)[Scores::rows],
                                     uint32_t values, Out& out) {
    RAPT_UNROLL
    for (int i = 0; i < Out::rows; ++i) {
      RAPT_UNROLL
      for (int j = 0; j < Out::columns; ++j) out.at[i][j] *= rescale[i];
    }
    RAPT_UNROLL
    for (int step = 0; step < key_tiles / 2; ++step) {
      uint32_t weights[row_tiles][4];
      RAPT_UNROLL
      for (int m = 0; m < row_tiles; ++m) {
        RAPT_UNROLL
        for (int i = 0; i < 4; ++i) {
          const float* two = &scores.at[2 * m + i % 2][4 * step + i / 2 * 2];
          weights[m][i] = Target::template pack_two<Element>(two[0], two[1]);
        }
      }
      RAPT_UNROLL
      for (int pair = 0; pair < config.dim / 16; ++pair) {
        uint32_t b[4];
        Target::ldmatrix_transposed(values + rows_of_values<Target, Tile>(step * 16, pair), b);
        multiply_pair(out, pair, weights, b);
      }
    }
  }

 private:
  // Columns 16 pair … 16 pair + 15 of the sums.
  template <class Sums>
  RAPT_DEVICE static void multiply_pair(Sums& sums, int pair, const uint32_t (&a)[row_tiles][4],
                                        const uint32_t (&b)[4]) {
    RAPT_UNROLL
    for (int n = 0; n < 2; ++n) {
      RAPT_UNROLL
      for (int m = 0; m < row_tiles; ++m) {
        float* upper = &sums.at[2 * m][4 * pair + 2 * n];
        float* lower = &sums.at[2 * m + 1][4 * pair + 2 * n];
        Target::template mma<Element>(upper[0], upper[1], lower[0], lower[1], a[m], b[2 * n],
                                      b[2 * n + 1]);
      }
    }
  }
};

}  // namespace rapt::gpu::flash_mma
