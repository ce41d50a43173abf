// flash_wgmma_f32: f32 on Hopper's tensor cores, in three products of TF32 with the accuracy of
// f32.
//
// Rows, softmax and results are flash_mma's (block_rows.hpp); the products are those of whole
// warpgroups, whose right operands lie in shared memory (products.cuh). A warpgroup of its own
// prepares them, while one or two compute:
//
//   preparing: for each tile of keys         computing: for each tile of keys
//     K and V have come                        when K is there:  S = Q Kᵀ
//     low parts of K                               P = 2^(S − row max)
//     when Vᵀ is used: Vᵀ from V, and low parts    when Vᵀ is there: O = O · 2^(old − row max) + P
//     V begin to load the next V when K is used: begin to load the next K
//
// Two warpgroups begin their products in turns, which keeps them a part of a tile apart: the
// softmax of one runs beside the products of the other.
#pragma once

#include "src/cuda/flash_wgmma_f32/block_mma.cuh"
#include "src/cuda/ptx/barrier.cuh"
#include "src/cuda/ptx/registers.cuh"
#include "src/cuda/shared_memory.hpp"
#include "src/gpu/flash_mma/block_rows.hpp"

namespace rapt::cuda::flash_wgmma_f32 {

using flash_mma::KeyRows;

template <TileConfig config>
struct FlashWgmmaF32 {
  using Parameters = flash_mma::Parameters;
  using BlockMma = flash_wgmma_f32::BlockMma<config>;
  static constexpr int warps_of_group = 4, groups = config.row_warps / warps_of_group;
  using Rows = flash_mma::BlockRows<Target, config, float, warps_of_group>;
  static constexpr int threads = Rows::threads + producer_threads, blocks = Rows::blocks;
  static constexpr int consumer_warps = config.warps();
  static_assert(groups * warps_of_group == consumer_warps && groups <= 2 && config.row_tiles == 1);

  // A phase for each tile: K and Vᵀ are there, with their low parts, when every preparing warp has
  // arrived, and used when every computing one has.
  struct Barriers {
    ptx::Barrier keys_full, keys_free, values_full, values_free;
  };
  static constexpr int barriers_at =
      Rows::Merge::bytes > BlockMma::bytes ? Rows::Merge::bytes : BlockMma::bytes;
  static constexpr int shared_bytes = barriers_at + sizeof(Barriers);
  static constexpr int shared_limit = most_shared_bytes_on_hopper;
  static_assert(blocks * (shared_bytes + 1024) <= 228 << 10);

  // Registers change hands in eights, where all having the same number is not enough.
  static constexpr int equal_registers = 65536 / blocks / threads / 8 * 8, enough_registers = 240;
  static constexpr int producer_registers = 72;
  static constexpr int consumer_registers =
      (equal_registers * (groups + 1) - producer_registers) / groups / 8 * 8;

  RAPT_DEVICE static void run(const Parameters& p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)  // elsewhere it is never launched
    Barriers& barriers = *reinterpret_cast<Barriers*>(block_memory + barriers_at);
    if (Target::thread() == 0) {
      barriers.keys_full.initialize(producer_threads / 32);
      barriers.keys_free.initialize(consumer_warps);
      barriers.values_full.initialize(producer_threads / 32);
      barriers.values_free.initialize(consumer_warps);
    }
    Target::block_barrier();
    // The same for the whole warp, and the compiler is to know it.
    if (Target::shuffle(Target::wave(), 0) >= consumer_warps) {
      if constexpr (equal_registers < enough_registers)
        ptx::deallocate_registers<producer_registers>();
      produce(p, barriers);
    } else {
      if constexpr (equal_registers < enough_registers)
        ptx::allocate_registers<consumer_registers>();
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

  RAPT_DEVICE static void produce(const Parameters& p, Barriers& barriers) {
    const semantics::Call& call = p.call;
    const typename Rows::Block block = Rows::block_at(p, Target::block_x());
    if (block.tile.rows <= 0) return;  // there is one chunk, if any
    const typename Rows::WarpTile warp_tile = Rows::warp_tile_of(p, block);
    const uint32_t memory = ptx::shared_address(block_memory);
    const KeyRows<float> keys(call, p.page, block.tile.sequence, call.k, call.k_stride,
                              warp_tile.kv_head);
    const KeyRows<float> values(call, p.page, block.tile.sequence, call.v, call.v_stride,
                                warp_tile.kv_head);
    const bool whole_qk = gpu::whole_accesses<float>(p.aligned, call.qk_dim);
    const bool whole_v = gpu::whole_accesses<float>(p.aligned, call.v_dim);
    const auto load_keys = [&](int first) {
      flash_wgmma_f32::load_keys<Rows, typename BlockMma::KeyPieces, config.keys>(
          memory + BlockMma::keys_at, keys, call.qk_dim, whole_qk, warp_tile, first, call.q);
    };
    const auto load_values = [&](int first) {
      flash_wgmma_f32::load_keys<Rows, typename BlockMma::ValuePieces, config.keys>(
          memory + BlockMma::loaded_values_at, values, call.v_dim, whole_v, warp_tile, first,
          call.q);
    };

    int first = warp_tile.keys.begin;
    if (first < warp_tile.keys.end) {
      load_keys(first);
      load_values(first);
    }
    uint32_t phase = 0;
    RAPT_NO_UNROLL
    for (; first < warp_tile.keys.end; first += config.keys) {
      const int next = first + config.keys;
      ptx::cp_async_wait_all();
      BlockMma::split_keys(memory);
      ptx::fence_proxy_async();
      arrive(barriers.keys_full);
      barriers.values_free.wait(phase ^ 1);  // those of the tile before
      BlockMma::transpose_values(memory);
      ptx::fence_proxy_async();
      arrive(barriers.values_full);
      if (next < warp_tile.keys.end) load_values(next);
      barriers.keys_free.wait(phase);
      if (next < warp_tile.keys.end) load_keys(next);
      phase ^= 1;
    }
  }

  // The warpgroup's turn to begin products. Named barrier 0 is BlockRows'.
  RAPT_DEVICE static void pingpong_wait(int group) {
    if constexpr (groups == 2) ptx::named_barrier_sync(1 + group, Rows::threads);
  }
  RAPT_DEVICE static void pingpong_arrive(int group) {
    if constexpr (groups == 2) ptx::named_barrier_arrive(2 - group, Rows::threads);
  }

  RAPT_DEVICE static void attend(const Parameters& p, const Rows::Block& block,
                                 Barriers& barriers) {
    const semantics::Call& call = p.call;
    const typename Rows::WarpTile warp_tile = Rows::warp_tile_of(p, block);
    const bool score_mod = config.score_mod && gpu::has_score_mod(call);
    const float scale = score_mod ? 1.0f : call.scale * gpu::log2_e;
    const int group = Target::shuffle(Target::wave() / warps_of_group, 0);

    const uint32_t memory = ptx::shared_address(block_memory);
    load_pieces<typename BlockMma::QueryPieces>(
        memory + BlockMma::queries_at, call.qk_dim,
        gpu::whole_accesses<float>(p.aligned, call.qk_dim), false, 0, call.q,
        [&](int row) { return Rows::query_row(p, block, row); });
    ptx::cp_async_wait_all();
    Rows::barrier();
    if (group == 1) pingpong_arrive(group);  // the first turn is the other's

    typename Rows::Results results;
    typename Rows::PromotedResults promoted;
    uint32_t phase = 0;
    RAPT_NO_UNROLL
    for (int first = warp_tile.keys.begin; first < warp_tile.keys.end; first += config.keys) {
      const int next = first + config.keys;
      barriers.keys_full.wait(phase);
      if (first < warp_tile.some.end && next > warp_tile.some.begin) {
        typename Rows::Scores scores;
        pingpong_wait(group);
        BlockMma::score(memory, scores, [&] { pingpong_arrive(group); });
        arrive(barriers.keys_free);
        if constexpr (config.score_mod) {
          if (score_mod) Rows::score_pairs(p, warp_tile, first, scores);
        }
        if (first < warp_tile.all.begin || next > warp_tile.all.end)
          Rows::apply_mask(p, warp_tile, first, scores);
        float rescale[Rows::rows];
        Rows::online_softmax(scale, scores, results, rescale);
        BlockMma::accumulate(
            scores, rescale, results.out,
            [&] {
              barriers.values_full.wait(phase);
              pingpong_wait(group);
            },
            [&] { pingpong_arrive(group); });
      } else {
        pingpong_wait(group);
        pingpong_arrive(group);
        arrive(barriers.keys_free);
        barriers.values_full.wait(phase);  // so that phases do not overtake each other
        pingpong_wait(group);
        pingpong_arrive(group);
      }
      arrive(barriers.values_free);
      phase ^= 1;
      promoted.take(first, next, results);
    }
    promoted.join(results);
    // Over the tiles: nothing is prepared any more, since the last values are there.
    Rows::store_results(results);
  }
};

}  // namespace rapt::cuda::flash_wgmma_f32
