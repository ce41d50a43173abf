// The two products of a warpgroup, and what lies in its registers between them. A thread has two
// rows of each matrix: see ptx/wgmma.cuh.
#pragma once

#include "src/cuda/flash_wgmma/shared_storage.cuh"
#include "src/cuda/ptx/ldmatrix.cuh"
#include "src/cuda/ptx/pack.cuh"
#include "src/cuda/ptx/wgmma.cuh"

namespace rapt::cuda::flash_wgmma {

template <TileConfig config, class Element>
struct WarpgroupMma {
  using Queries = Tiles<config>::Queries;
  using Keys = Tiles<config>::Keys;
  using Values = Tiles<config>::Values;

  using QueryRegisters =
      uint32_t[config.q_in_registers ? config.qk_dim / 16 : 1][4];  // Q (64, qk_dim)
  using Scores = float[config.keys / 8][4];                         // S (64, keys)
  using Weights = uint32_t[config.keys / 16][4];                    // P (64, keys)
  using Output = float[config.v_dim / 8][4];                        // O (64, v_dim)

  // The warp's part of a warpgroup's tile.
  RAPT_DEVICE static unsigned char* own_rows(unsigned char* tile) {
    return tile + Target::wave() % 4 * 16 * hopper::panel_row_bytes;
  }
  RAPT_DEVICE static void load_queries(unsigned char* tile, QueryRegisters& queries) {
    const unsigned char* rows = own_rows(tile);
    RAPT_UNROLL
    for (int column = 0; column < config.qk_dim; column += 16)
      ptx::ldmatrix(hopper::fragment_address<Queries>(rows, column), queries[column / 16]);
  }

  // S = Q Kᵀ, with queries from registers or from their tile.
  RAPT_DEVICE static void issue_scores(const QueryRegisters& query_registers,
                                       const unsigned char* query_tile,
                                       const unsigned char* key_tile, Scores& scores) {
    using Mma = ptx::Wgmma<Element, config.keys>;
    const auto keys = ptx::MatrixDescriptor::k_major(key_tile);
    ptx::wgmma_fence();
    if constexpr (config.q_in_registers) {
      RAPT_UNROLL
      for (int column = 0; column < config.qk_dim; column += 16)
        Mma::mma(scores, query_registers[column / 16], keys.offset_by(Keys::column_offset(column)),
                 column > 0);
    } else {
      const auto queries = ptx::MatrixDescriptor::k_major(query_tile);
      RAPT_UNROLL
      for (int column = 0; column < config.qk_dim; column += 16)
        Mma::mma(scores, queries.offset_by(Queries::column_offset(column)),
                 keys.offset_by(Keys::column_offset(column)), column > 0);
    }
    ptx::wgmma_commit();
  }

  // O = O + P V
  RAPT_DEVICE static void issue_output(const Weights& weights, const unsigned char* value_tile,
                                       Output& out) {
    const auto values = ptx::MatrixDescriptor::mn_major(value_tile, Values::panel_bytes);
    ptx::wgmma_fence();
    RAPT_UNROLL
    for (int i = 0; i < config.keys / 16; ++i)
      ptx::Wgmma<Element, config.v_dim>::mma_mn_major(
          out, weights[i], values.offset_by(i * 16 * hopper::panel_row_bytes), true);
    ptx::wgmma_commit();
  }

  RAPT_DEVICE static void clear(Output& out) {
    RAPT_UNROLL
    for (int j = 0; j < config.v_dim / 8; ++j) {
      RAPT_UNROLL
      for (int i = 0; i < 4; ++i) out[j][i] = 0;
    }
  }
  RAPT_DEVICE static void rescale(Output& out, const float (&factor)[2]) {
    RAPT_UNROLL
    for (int j = 0; j < config.v_dim / 8; ++j) {
      RAPT_UNROLL
      for (int i = 0; i < 4; ++i) out[j][i] *= factor[i / 2];
    }
  }

  RAPT_DEVICE static void pack(const Scores& scores, Weights& weights) {
    RAPT_UNROLL
    for (int j = 0; j < config.keys / 8; ++j) {
      RAPT_UNROLL
      for (int half = 0; half < 2; ++half) {
        weights[j / 2][j % 2 * 2 + half] =
            ptx::pack_two<Element>(scores[j][2 * half], scores[j][2 * half + 1]);
      }
    }
  }
};

}  // namespace rapt::cuda::flash_wgmma
