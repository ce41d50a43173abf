// The consumers: one or two warpgroups that compute, on 64 rows each. Of two, one's softmax runs
// beside the other's products (ping-pong).
#pragma once

#include "src/cuda/flash_wgmma_f32/output_mma.cuh"
#include "src/cuda/flash_wgmma_f32/score_mma.cuh"
#include "src/cuda/hopper/pingpong.cuh"

namespace rapt::cuda::flash_wgmma_f32 {

template <TileConfig config>
class Consumer {
  using Rows = flash_wgmma_f32::Rows<config>;
  using Storage = flash_wgmma_f32::Storage<config>;

 public:
  static constexpr int groups = config.row_warps / warps_of_group;
  static_assert(groups * warps_of_group == config.warps() && groups <= 2 && config.row_tiles == 1);

  RAPT_DEVICE static void run(const Parameters& p) {
    Rows::run(p, [&](const Parameters&, const Rows::Block& block) { attend(p, block); });
  }

 private:
  // Leaves results of the block's rows in shared memory.
  RAPT_DEVICE static void attend(const Parameters& p, const Rows::Block& block) {
    const semantics::Call& call = p.call;
    const typename Rows::WarpTile warp_tile = Rows::warp_tile_of(p, block);
    const bool score_mod = config.score_mod && gpu::has_score_mod(call);
    const float scale = score_mod ? 1.0f : call.scale * gpu::log2_e;
    const int group = Target::shuffle(Target::wave() / warps_of_group, 0);
    const uint32_t memory = ptx::shared_address(block_memory);
    load_queries(p, block, memory);
    if (group == 1) pass_turn_on(group);  // the first turn is the other's

    Rings& rings = Storage::rings();
    typename Rows::Results results;
    typename Rows::PromotedResults promoted;
    hopper::PipelineState<1> pipe(0);
    RAPT_NO_UNROLL
    for (int first = warp_tile.keys.begin; first < warp_tile.keys.end; first += config.keys) {
      const int next = first + config.keys;
      rings.keys.wait_full(pipe);
      if (first < warp_tile.some.end && next > warp_tile.some.begin) {
        typename Rows::Scores scores;
        wait_for_turn(group);
        ScoreMma<config>::score(memory, scores, [&] { pass_turn_on(group); });
        arrive(rings.keys.free[0]);
        if constexpr (config.score_mod) {
          if (score_mod) Rows::score_pairs(p, warp_tile, first, scores);
        }
        if (first < warp_tile.all.begin || next > warp_tile.all.end)
          Rows::apply_mask(p, warp_tile, first, scores);
        float rescale[Rows::rows];
        Rows::online_softmax(scale, scores, results, rescale);
        if constexpr (config.score_mod) {
          if (call.dropout.seed) Rows::drop_pairs(p, warp_tile, first, scores);
        }
        OutputMma<config>::accumulate(
            scores, rescale, results.out,
            [&] {
              rings.values.wait_full(pipe);
              wait_for_turn(group);
            },
            [&] { pass_turn_on(group); });
      } else {
        skip_tile(rings, pipe, group);
      }
      arrive(rings.values.free[0]);
      pipe.advance();
      promoted.take(first, next, results);
    }
    promoted.join(results);
    // Over the tiles: nothing is prepared any more, since the last values are there.
    Rows::store_results(results);
  }

  RAPT_DEVICE static void load_queries(const Parameters& p, const Rows::Block& block,
                                       uint32_t memory) {
    load_pieces<typename Storage::QueryPieces>(
        memory + Storage::queries_at, p.call.qk_dim,
        gpu::whole_accesses<float>(p.aligned, p.call.qk_dim), false, 0, p.call.q,
        [&](int row) { return Rows::query_row(p, block, row); });
    ptx::cp_async_wait_all();
    Rows::barrier();
  }

  // A tile that none of the warpgroup's rows see: its turns are passed on.
  RAPT_DEVICE static void skip_tile(Rings& rings, hopper::PipelineState<1> pipe, int group) {
    wait_for_turn(group);
    pass_turn_on(group);
    arrive(rings.keys.free[0]);
    rings.values.wait_full(pipe);  // so that phases do not overtake each other
    wait_for_turn(group);
    pass_turn_on(group);
  }

  // Named barrier 0 is BlockRows'.
  RAPT_DEVICE static void wait_for_turn(int group) {
    if constexpr (groups == 2) hopper::wait_for_turn(group);
  }
  RAPT_DEVICE static void pass_turn_on(int group) {
    if constexpr (groups == 2) hopper::pass_turn_to(1 - group);
  }
};

}  // namespace rapt::cuda::flash_wgmma_f32
