// The five products of a warpgroup where dims are split (tile_config.hpp): its own dims of dK and
// dV, and of the pairs of a step its own keys. Pᵀ and dSᵀ are made by all warpgroups together and
// lie in shared memory, keys × queries, from where each reads all of them.
//
//   S   (64, keys / warpgroups)  =  Q (64, dim)        Kᵀ      of 64 queries
//   dP  (64, keys / warpgroups)  =  dO (64, dim)       Vᵀ
//   dVᵀ (64, keys)              +=  dOᵀ (64, queries)  P       of 64 dims at a time
//   dKᵀ (64, keys)              +=  Qᵀ (64, queries)   dS
//   dQ  (64, 64)                 =  dS (64, keys)      K       of 64 dims
#pragma once

#include "src/cuda/flash_wgmma_backward/dq_mma.cuh"
#include "src/cuda/ptx/ldmatrix.cuh"
#include "src/cuda/ptx/pack.cuh"

namespace rapt::cuda::flash_wgmma_backward {

template <TileConfig config, class Element>
struct WideMma {
  using Keys = Tiles<config>::Keys;
  using Queries = Tiles<config>::Queries;
  using Gradients = Tiles<config>::Gradients;
  static_assert(config.queries == 64);

  static constexpr int own_keys = config.keys / config.warpgroups;  // of S and dP
  static constexpr int panels = config.dim / hopper::warpgroup_rows / config.warpgroups;  // of dims

  using Pairs = float[own_keys / 8][4];            // S, dP (64, own_keys)
  using Packed = uint32_t[own_keys / 8][2];        // of 16 bits: of each eight keys, the two rows
  using Sums = float[panels][config.keys / 8][4];  // dKᵀ, dVᵀ (64, keys) for each panel of dims
  using QueryGradients = float[8][4];              // dQ (64, 64)

  // `rows` are Q or dO, `columns` K or V.
  RAPT_DEVICE static void issue_pairs(const unsigned char* rows, const unsigned char* columns,
                                      int group, Pairs& pairs) {
    const auto a = ptx::MatrixDescriptor::k_major(rows);
    const auto b =
        ptx::MatrixDescriptor::k_major(columns + group * own_keys * hopper::panel_row_bytes);
    ptx::wgmma_fence();
    RAPT_UNROLL
    for (int column = 0; column < config.dim; column += 16)
      ptx::Wgmma<Element, own_keys>::mma(pairs, a.offset_by(Queries::column_offset(column)),
                                         b.offset_by(Keys::column_offset(column)), column > 0);
    ptx::wgmma_commit();
  }

  // `rows` are dO for dV, Q for dK; `pairs` are Pᵀ or dSᵀ.
  RAPT_DEVICE static void issue_sums(const unsigned char* rows, const unsigned char* pairs,
                                     int group, Sums& sums) {
    const auto b = ptx::MatrixDescriptor::k_major(pairs);
    ptx::wgmma_fence();
    RAPT_UNROLL
    for (int panel = 0; panel < panels; ++panel) {
      const auto a = ptx::MatrixDescriptor::mn_major(
          rows + (group * panels + panel) * Queries::panel_bytes, Queries::panel_bytes);
      RAPT_UNROLL
      for (int i = 0; i < config.queries / 16; ++i)
        ptx::Wgmma<Element, config.keys>::mma_a_mn_major(
            sums[panel], a.offset_by(i * 16 * hopper::panel_row_bytes),
            b.offset_by(Gradients::column_offset(16 * i)), true);
    }
    ptx::wgmma_commit();
  }

  // Of the warpgroup's number-th panel of dims.
  RAPT_DEVICE static void issue_dq(const unsigned char* gradients, const unsigned char* keys,
                                   int group, int number, QueryGradients& dq) {
    issue_dq_part<config, Element>(gradients, keys, group * panels + number, dq);
  }

  RAPT_DEVICE static void fence(Sums& sums) {
    RAPT_UNROLL
    for (int panel = 0; panel < panels; ++panel) ptx::fence_operand(sums[panel]);
  }

  RAPT_DEVICE static void pack(const Pairs& pairs, Packed& packed) {
    RAPT_UNROLL
    for (int j = 0; j < own_keys / 8; ++j) {
      RAPT_UNROLL
      for (int half = 0; half < 2; ++half)
        packed[j][half] = ptx::pack_two<Element>(pairs[j][2 * half], pairs[j][2 * half + 1]);
    }
  }

  // A warp's 16 rows of P or dS, transposed, to where products find them.
  RAPT_DEVICE static void stage(const Packed& packed, unsigned char* pairs, int group) {
    const int lane = Target::lane();
    const int key = group * own_keys + lane / 16 * 8 + lane % 8;
    const int query = Target::wave() % 4 * 16 + lane / 8 % 2 * 8;
    const uint32_t to = ptx::shared_address(pairs) + Gradients::at(key, query);
    constexpr int pairs_of_eights = own_keys / 16;
    RAPT_UNROLL
    for (int i = 0; i < pairs_of_eights; ++i) {
      const uint32_t words[4] = {packed[2 * i][0], packed[2 * i][1], packed[2 * i + 1][0],
                                 packed[2 * i + 1][1]};
      ptx::stmatrix_transposed(to + i * 16 * hopper::panel_row_bytes, words);
    }
    if constexpr (own_keys % 16 > 0)
      ptx::stmatrix_transposed(to + pairs_of_eights * 16 * hopper::panel_row_bytes,
                               packed[2 * pairs_of_eights]);
  }
};

}  // namespace rapt::cuda::flash_wgmma_backward
