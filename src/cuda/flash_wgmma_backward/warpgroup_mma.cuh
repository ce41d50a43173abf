// The five products of a warpgroup, whose rows are 64 keys, and what lies in its registers between
// them. Weights and dS are made transposed, keys × queries, so that as they lie in registers they
// are the first factor of the products that give dV and dK; for dQ, dSᵀ goes through shared memory,
// from where tensor cores read it the other way round (dq_mma.cuh).
//
//   Sᵀ  (64, queries)  =  K (64, dim)        Qᵀ         both from shared memory
//   dPᵀ (64, queries)  =  V (64, dim)        dOᵀ        likewise
//   dV  (64, dim)     +=  Pᵀ (64, queries)   dO         Pᵀ from registers
//   dK  (64, dim)     +=  dSᵀ (64, queries)  Q          dSᵀ from registers
//   dQ  (64, 64)       =  dS (64, 128)       K          of 64 queries and 64 dims, over all keys
#pragma once

#include "src/cuda/flash_wgmma_backward/dq_mma.cuh"
#include "src/cuda/ptx/ldmatrix.cuh"
#include "src/cuda/ptx/pack.cuh"

namespace rapt::cuda::flash_wgmma_backward {

template <TileConfig config, class Element>
struct WarpgroupMma {
  using Keys = Tiles<config>::Keys;
  using Queries = Tiles<config>::Queries;
  using Gradients = Tiles<config>::Gradients;

  using Pairs = float[config.queries / 8][4];       // Sᵀ, dPᵀ (64, queries)
  using Packed = uint32_t[config.queries / 16][4];  // Pᵀ, dSᵀ (64, queries)
  using Sums = float[config.dim / 8][4];            // dK, dV (64, dim)
  using QueryGradients = float[8][4];               // dQ (64, 64)

  // `rows` are K or V, `columns` Q or dO.
  RAPT_DEVICE static void issue_pairs(const unsigned char* rows, int group,
                                      const unsigned char* columns, Pairs& pairs) {
    const auto a = ptx::MatrixDescriptor::k_major(rows + group * 64 * hopper::panel_row_bytes);
    const auto b = ptx::MatrixDescriptor::k_major(columns);
    ptx::wgmma_fence();
    RAPT_UNROLL
    for (int column = 0; column < config.dim; column += 16)
      ptx::Wgmma<Element, config.queries>::mma(pairs, a.offset_by(Keys::column_offset(column)),
                                               b.offset_by(Queries::column_offset(column)),
                                               column > 0);
    ptx::wgmma_commit();
  }

  // `rows` are dO for dV, Q for dK.
  RAPT_DEVICE static void issue_sums(const Packed& pairs, const unsigned char* rows, Sums& sums) {
    const auto b = ptx::MatrixDescriptor::mn_major(rows, Queries::panel_bytes);
    ptx::wgmma_fence();
    RAPT_UNROLL
    for (int i = 0; i < config.queries / 16; ++i)
      ptx::Wgmma<Element, config.dim>::mma_mn_major(
          sums, pairs[i], b.offset_by(i * 16 * hopper::panel_row_bytes), true);
    ptx::wgmma_commit();
  }

  // With two panels of queries, each warpgroup has one of them and all dims; else all queries, and
  // a panel of dims.
  RAPT_DEVICE static void issue_dq(const unsigned char* gradients, const unsigned char* keys,
                                   int group, QueryGradients& dq) {
    issue_dq_part<config, Element>(gradients, keys, group, dq);
  }

  RAPT_DEVICE static void pack(const Pairs& pairs, Packed& packed) {
    RAPT_UNROLL
    for (int j = 0; j < config.queries / 8; ++j) {
      RAPT_UNROLL
      for (int half = 0; half < 2; ++half)
        packed[j / 2][j % 2 * 2 + half] =
            ptx::pack_two<Element>(pairs[j][2 * half], pairs[j][2 * half + 1]);
    }
  }

  // A warp's 16 rows of dSᵀ, to where dQ's products find them.
  RAPT_DEVICE static void stage(const Packed& packed, unsigned char* gradients, int group) {
    unsigned char* const rows =
        gradients + (group * 64 + Target::wave() % 4 * 16) * hopper::panel_row_bytes;
    RAPT_UNROLL
    for (int i = 0; i < config.queries / 16; ++i)
      ptx::stmatrix(hopper::fragment_address<Gradients>(rows, i * 16), packed[i]);
  }
};

}  // namespace rapt::cuda::flash_wgmma_backward
