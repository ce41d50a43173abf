// flash_wgmma_f32: f32 on Hopper's tensor cores, in three products of TF32 with the accuracy of
// f32.
//
// Rows, softmax and results are flash_mma's (block_rows.cuh); the products are those of whole
// warpgroups, whose right operands lie in shared memory (products.cuh). A warpgroup of its own
// prepares them, while one or two compute:
//
//   preparing: for each tile of keys         computing: for each tile of keys
//     K and V have come                        when K is there:  S = Q Kᵀ
//     rests of K                               P = 2^(S − reference)
//     when Vᵀ is used: Vᵀ from V, and rests    when Vᵀ is there: O = O · 2^(old − reference) + P V
//     begin to load the next V
//     when K is used: begin to load the next K
//
// Two warpgroups begin their products in turns, which keeps them a part of a tile apart: the
// softmax of one runs beside the products of the other.
#pragma once

#include "src/cuda/flash_mma/block_rows.cuh"
#include "src/cuda/flash_wgmma_f32/products.cuh"
#include "src/cuda/ptx/barrier.cuh"
#include "src/cuda/ptx/registers.cuh"
#include "src/cuda/shared_memory.hpp"

namespace rapt::cuda::flash_wgmma_f32 {

using flash_mma::KeyRows;

template <TileConfig config>
struct Kernel {
  using Parameters = flash_mma::Parameters;
  using Products = flash_wgmma_f32::Products<config>;
  static constexpr int warps_of_group = 4, groups = config.row_warps / warps_of_group;
  using Rows = flash_mma::BlockRows<config, float, warps_of_group>;
  static constexpr int threads = Rows::threads + preparing_threads, blocks = Rows::blocks;
  static constexpr int computing_warps = config.warps();
  static_assert(groups * warps_of_group == computing_warps && groups <= 2 && config.row_tiles == 1);

  // A phase for each tile: K and Vᵀ are there, with their rests, when every preparing warp has
  // arrived, and used when every computing one has.
  struct Barriers {
    ptx::Barrier keys_there, keys_used, values_there, values_used;
  };
  static constexpr int barriers_at =
      Rows::Merge::bytes > Products::bytes ? Rows::Merge::bytes : Products::bytes;
  static constexpr int shared_bytes = barriers_at + sizeof(Barriers);
  static constexpr int shared_limit = most_shared_bytes_on_hopper;
  static_assert(blocks * (shared_bytes + 1024) <= 228 << 10);

  // Registers change hands in eights, where all having the same number is not enough.
  static constexpr int equal_registers = 65536 / blocks / threads / 8 * 8, enough_registers = 240;
  static constexpr int preparing_registers = 72;
  static constexpr int computing_registers =
      (equal_registers * (groups + 1) - preparing_registers) / groups / 8 * 8;

  RAPT_DEVICE static void run(const Parameters& p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)  // elsewhere it is never launched
    Barriers& barriers = *reinterpret_cast<Barriers*>(block_memory + barriers_at);
    if (Target::thread() == 0) {
      barriers.keys_there.initialize(preparing_threads / 32);
      barriers.keys_used.initialize(computing_warps);
      barriers.values_there.initialize(preparing_threads / 32);
      barriers.values_used.initialize(computing_warps);
    }
    Target::block_barrier();
    // The same for the whole warp, and the compiler is to know it.
    if (Target::shuffle(Target::wave(), 0) >= computing_warps) {
      if constexpr (equal_registers < enough_registers) ptx::keep_registers<preparing_registers>();
      prepare(p, barriers);
    } else {
      if constexpr (equal_registers < enough_registers) ptx::take_registers<computing_registers>();
      Rows::run(p,
                [&](const Parameters&, const Rows::Block& block) { attend(p, block, barriers); });
    }
#endif
  }

 private:
  // The warp is done with what others wait for.
  RAPT_DEVICE static void arrive(ptx::Barrier& barrier) {
    __syncwarp();
    barrier.arrive_if(Target::lane() == 0);
  }

  RAPT_DEVICE static void prepare(const Parameters& p, Barriers& barriers) {
    const semantics::Call& call = p.call;
    const typename Rows::Block block = Rows::block_at(p, Target::block_x());
    if (block.tile.rows <= 0) return;  // there is one chunk, if any
    const typename Rows::Work work = Rows::work_of(p, block);
    const uint32_t memory = ptx::shared_address(block_memory);
    const KeyRows<float> keys(p, block.tile.sequence, call.k, call.k_stride, work.kv_head);
    const KeyRows<float> values(p, block.tile.sequence, call.v, call.v_stride, work.kv_head);
    const bool whole_qk = gpu::whole_accesses<float>(p.aligned, call.qk_dim);
    const bool whole_v = gpu::whole_accesses<float>(p.aligned, call.v_dim);
    const auto load_keys = [&](int first) {
      flash_wgmma_f32::load_keys<typename Products::KeyPieces, config.keys>(
          memory + Products::keys_at, keys, call.qk_dim, whole_qk, first, work.keys.end, call.q);
    };
    const auto load_values = [&](int first) {
      flash_wgmma_f32::load_keys<typename Products::ValuePieces, config.keys>(
          memory + Products::loaded_values_at, values, call.v_dim, whole_v, first, work.keys.end,
          call.q);
    };

    int first = work.keys.begin;
    if (first < work.keys.end) {
      load_keys(first);
      load_values(first);
    }
    uint32_t parity = 0;
    RAPT_NO_UNROLL
    for (; first < work.keys.end; first += config.keys) {
      const int next = first + config.keys;
      ptx::wait_for_copies();
      Products::split_keys(memory);
      ptx::fence_stores();
      arrive(barriers.keys_there);
      barriers.values_used.wait(parity ^ 1);  // those of the tile before
      Products::transpose_values(memory);
      ptx::fence_stores();
      arrive(barriers.values_there);
      if (next < work.keys.end) load_values(next);
      barriers.keys_used.wait(parity);
      if (next < work.keys.end) load_keys(next);
      parity ^= 1;
    }
  }

  // The warpgroup's turn to begin products. Named barrier 0 is BlockRows'.
  RAPT_DEVICE static void take_turn(int group) {
    if constexpr (groups == 2) ptx::named_wait(1 + group, Rows::threads);
  }
  RAPT_DEVICE static void pass_turn(int group) {
    if constexpr (groups == 2) ptx::named_arrive(2 - group, Rows::threads);
  }

  RAPT_DEVICE static void attend(const Parameters& p, const Rows::Block& block,
                                 Barriers& barriers) {
    const semantics::Call& call = p.call;
    const typename Rows::Work work = Rows::work_of(p, block);
    const bool scoring = config.scoring && gpu::has_scoring(call);
    const float scale = scoring ? 1.0f : call.scale * gpu::log2_e;
    const int group = Target::shuffle(Target::wave() / warps_of_group, 0);

    const uint32_t memory = ptx::shared_address(block_memory);
    load_pieces<typename Products::QueryPieces>(
        memory + Products::queries_at, call.qk_dim,
        gpu::whole_accesses<float>(p.aligned, call.qk_dim), false, 0, call.q,
        [&](int row) { return Rows::query_row(p, block, row); });
    ptx::wait_for_copies();
    Rows::barrier();
    if (group == 1) pass_turn(group);  // the first turn is the other's

    typename Rows::Results results;
    typename Rows::Earlier earlier;
    uint32_t parity = 0;
    RAPT_NO_UNROLL
    for (int first = work.keys.begin; first < work.keys.end; first += config.keys) {
      const int next = first + config.keys;
      barriers.keys_there.wait(parity);
      if (first < work.some.end && next > work.some.begin) {
        typename Rows::Scores scores;
        take_turn(group);
        Products::score(memory, scores, [&] { pass_turn(group); });
        arrive(barriers.keys_used);
        if constexpr (config.scoring) {
          if (scoring) Rows::score_pairs(p, work, first, scores);
        }
        if (first < work.all.begin || next > work.all.end) Rows::hide(p, work, first, scores);
        float rescale[Rows::rows];
        Rows::weigh(scale, scores, results, rescale);
        Products::accumulate(
            scores, rescale, results.out,
            [&] {
              barriers.values_there.wait(parity);
              take_turn(group);
            },
            [&] { pass_turn(group); });
      } else {
        take_turn(group);
        pass_turn(group);
        arrive(barriers.keys_used);
        barriers.values_there.wait(parity);  // so that phases do not overtake each other
        take_turn(group);
        pass_turn(group);
      }
      arrive(barriers.values_used);
      parity ^= 1;
      earlier.take(first, next, results);
    }
    earlier.join(results);
    // Over the tiles: nothing is prepared any more, since the last values are there.
    Rows::leave(results);
  }
};

}  // namespace rapt::cuda::flash_wgmma_f32
