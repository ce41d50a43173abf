// Products of f32 tiles on tensor cores, by way of TF32, which keeps 11 of f32's 24 bits.
//
// An f32 x is h + l: h is x without its last 13 bits, as the tensor core takes it, and l its low
// part, of which it then takes all but the last 2. Of the product of two such sums the three larger
// products are taken. Tensor cores cut off what they cannot hold, so that long sums drift towards
// 0: they add some terms, and f32 additions the rest. In the first product, where a score's error
// counts as much as the score is large, small products have sums of their own.
//
// Queries meet every tile of keys: their low parts lie beside them where there is memory for it,
// and those to be rounded are rounded in their place.
//
// In the second product a lane's weights, as the first left them, serve as they are: key 2 t of a
// step of 8 stands where row t of its operand belongs, key 2 t + 1 at row t + 4. The values are
// read in the same order, 4 bytes at a time: wider loads would leave them in registers where they
// are of no use.
#pragma once

#include "src/gpu/flash_mma/loads.hpp"

namespace rapt::gpu::flash_mma {

template <TileConfig config>
inline constexpr bool has_room_for_low_parts =
    config.mma_kind == MmaKind::tf32x3&& config.dim <= 64 && config.key_warps == 1;

template <class Target, TileConfig config, bool keeps_low_parts = has_room_for_low_parts<config>>
struct MmaTf32 {
  static constexpr bool exact = config.mma_kind == MmaKind::tf32x3;
  static constexpr int row_tiles = config.row_tiles, key_tiles = config.warp_keys() / 8;
  static constexpr int sum_steps = config.sum_keys / 8, sum_tiles = config.sum_dims / 8;
  using Tile = TileLayout<float, config.dim>;
  using Scores = RowsOf<config, config.warp_keys()>;
  using Out = RowsOf<config, config.dim>;
  // Tiles in shared memory: the queries, and their low parts.
  static constexpr int query_tiles = keeps_low_parts ? 2 : 1;
  static constexpr bool prepares = keeps_low_parts || !exact;

  // A thread prepares the queries that it has loaded.
  RAPT_DEVICE static void prepare(uint32_t queries) {
    for_each_access<Target, float, block_rows, config.dim, threads>(queries, [](uint32_t address) {
      uint32_t some[4], low_parts[4];
      Target::load_shared(address, some);
      split(some, low_parts);
      if constexpr (exact)
        Target::store_shared(address + low_parts_at, low_parts);
      else
        Target::store_shared(address, some);
    });
  }

  // scores = queries · keysᵀ
  RAPT_DEVICE static void score(uint32_t queries, uint32_t keys, Scores& scores) {
    constexpr int at_once = config.sum_depth < 64 ? config.sum_depth : 64;
    Sums<key_tiles> small = {};
    RAPT_UNROLL
    for (int first = 0; first < config.dim; first += config.sum_depth) {
      Sums<key_tiles> large = {};
      RAPT_NO_UNROLL
      for (int dim = first; dim < first + config.sum_depth; dim += at_once)
        add_products<at_once>(queries + dim * 4, keys + dim * 4, small, large);
      for_each(scores, [&](float& score, int m, int n, int i) {
        score = first == 0 ? large.at[m][n][i] : score + large.at[m][n][i];
      });
    }
    if constexpr (exact)
      for_each(scores, [&](float& score, int m, int n, int i) { score += small.at[m][n][i]; });
  }

  // out = out · rescale + weights · values
  RAPT_DEVICE static void accumulate(const Scores& weights, const float (&rescale)[Scores::rows],
                                     uint32_t values, Out& out) {
    const int lane = Target::lane();
    const uint32_t start = values + lane % 4 * 2 * Tile::row_bytes + lane / 4 * 4;
    RAPT_UNROLL
    for (int first_step = 0; first_step < key_tiles; first_step += sum_steps) {
      uint32_t left[sum_steps][row_tiles][4], left_low[sum_steps][row_tiles][4];
      RAPT_UNROLL
      for (int step = 0; step < sum_steps; ++step) {
        RAPT_UNROLL
        for (int m = 0; m < row_tiles; ++m) {
          RAPT_UNROLL
          for (int i = 0; i < 4; ++i)
            left[step][m][i] = __builtin_bit_cast(
                uint32_t, weights.at[2 * m + i % 2][2 * (first_step + step) + i / 2]);
          split(left[step][m], left_low[step][m]);
        }
      }
      RAPT_UNROLL
      for (int first_tile = 0; first_tile < config.dim / 8; first_tile += sum_tiles) {
        Sums<sum_tiles> sums = {};
        RAPT_UNROLL
        for (int step = 0; step < sum_steps; ++step) {
          uint32_t right[2 * sum_tiles], right_low[2 * sum_tiles];
          RAPT_UNROLL
          for (int i = 0; i < 2 * sum_tiles; ++i)
            right[i] =
                Target::load_shared(start + ((first_step + step) * 8 + i % 2) * Tile::row_bytes +
                                    (first_tile + i / 2) * 32);
          split(right, right_low);
          if constexpr (exact) {
            multiply(left[step], right_low, 0, sums);
            multiply(left_low[step], right, 0, sums);
          }
          multiply(left[step], right, 0, sums);
        }
        RAPT_UNROLL
        for (int m = 0; m < row_tiles; ++m) {
          RAPT_UNROLL
          for (int n = 0; n < sum_tiles; ++n) {
            RAPT_UNROLL
            for (int i = 0; i < 4; ++i) {
              const int row = 2 * m + i / 2;
              float& sum = out.at[row][2 * (first_tile + n) + i % 2];
              sum = (first_step == 0 ? sum * rescale[row] : sum) + sums.at[m][n][i];
            }
          }
        }
      }
    }
  }

 private:
  static constexpr int block_rows = config.rows(), threads = config.warps() * 32;
  static constexpr int low_parts_at = block_rows * Tile::row_bytes;  // from the queries on

  // Fragments of a product: rows of all row tiles, columns in tiles of 8.
  template <int tiles>
  struct Sums {
    float at[row_tiles][tiles][4];
  };

  // What the tensor core does not take of each x. Where nothing else is taken, x is rounded
  // instead.
  template <int n>
  RAPT_DEVICE static void split(uint32_t (&x)[n], uint32_t (&low_parts)[n]) {
    RAPT_UNROLL
    for (int i = 0; i < n; ++i) {
      if constexpr (exact) {
        low_parts[i] = Target::low_part_of_tf32(x[i]);
      } else if (isfinite(__builtin_bit_cast(float, x[i]))) {  // a NaN would become a number
        x[i] += 0x1000u;
      }
    }
  }

  // One step: n / 2 right operands, for the column tiles from `first` on.
  template <int n, int tiles>
  RAPT_DEVICE static void multiply(const uint32_t (&left)[row_tiles][4], const uint32_t (&right)[n],
                                   int first, Sums<tiles>& sums) {
    RAPT_UNROLL
    for (int i = 0; i < n / 2; ++i) {
      RAPT_UNROLL
      for (int m = 0; m < row_tiles; ++m) {
        float(&c)[4] = sums.at[m][first + i];
        Target::template mma<float>(c[0], c[1], c[2], c[3], left[m], right[2 * i],
                                    right[2 * i + 1]);
      }
    }
  }

  // Small and large products of queries and keys over `depth` dims.
  template <int depth>
  RAPT_DEVICE static void add_products(uint32_t queries, uint32_t keys, Sums<key_tiles>& small,
                                       Sums<key_tiles>& large) {
    RAPT_UNROLL
    for (int step = 0; step < depth / 8; ++step) {
      uint32_t left[row_tiles][4], left_low[row_tiles][4];
      RAPT_UNROLL
      for (int m = 0; m < row_tiles; ++m) {
        const uint32_t from = queries + left_operand<Target, Tile>(m * 16, step);
        Target::ldmatrix(from, left[m]);
        if constexpr (keeps_low_parts)
          Target::ldmatrix(from + low_parts_at, left_low[m]);
        else if constexpr (exact)
          split(left[m], left_low[m]);
      }
      RAPT_UNROLL
      for (int tile = 0; tile < key_tiles; tile += 2) {
        uint32_t right[4], right_low[4];
        Target::ldmatrix(keys + right_operand<Target, Tile>(tile * 8, step), right);
        split(right, right_low);
        if constexpr (exact) multiply(left, right_low, tile, small);
        multiply(left, right, tile, large);
        if constexpr (exact) multiply(left_low, right, tile, small);
      }
    }
  }

  template <class Change>
  RAPT_DEVICE static void for_each(Scores& scores, Change change) {
    RAPT_UNROLL
    for (int m = 0; m < row_tiles; ++m) {
      RAPT_UNROLL
      for (int n = 0; n < key_tiles; ++n) {
        RAPT_UNROLL
        for (int i = 0; i < 4; ++i) change(scores.at[2 * m + i / 2][2 * n + i % 2], m, n, i);
      }
    }
  }
};

}  // namespace rapt::gpu::flash_mma
